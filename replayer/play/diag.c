#include "play/diag.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void diag(const char *format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(message, sizeof message, format, arguments); /* a cut message is still useful */
  va_end(arguments);
  /* Two programs share this; nowhere is left to report a failure. */
  (void)fprintf(stderr, "%s: %s\n", program_invocation_short_name, message);
}
