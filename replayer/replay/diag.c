#include "replay/diag.h"

#include <stdarg.h>
#include <stdio.h>

void diag(const char *format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(message, sizeof message, format, arguments); /* a cut message is still useful */
  va_end(arguments);
  (void)fprintf(stderr, "tracekit-replay: %s\n", message); /* nowhere left to report a failure */
}
