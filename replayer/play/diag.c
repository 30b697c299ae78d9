#include "play/diag.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_BYTES 1024
#define ESCAPED_BYTES 4 /* of one byte: \xNN */

/* Returns the length of the UTF-8 character at `text` and its code point, 0 for bytes that are no
 * such character. Longer forms than needed and surrogates are let through: they show nothing. */
static size_t decode(const unsigned char *text, uint32_t *point) {
  static const struct {
    unsigned char mask, lead;
    size_t length;
  } forms[] = {{0x80, 0x00, 1}, {0xE0, 0xC0, 2}, {0xF0, 0xE0, 3}, {0xF8, 0xF0, 4}};
  for (size_t form = 0; form < sizeof forms / sizeof forms[0]; form++) {
    if ((text[0] & forms[form].mask) != forms[form].lead)
      continue;
    *point = text[0] & (unsigned char)~forms[form].mask;
    for (size_t i = 1; i < forms[form].length; i++) {
      if ((text[i] & 0xC0) != 0x80)
        return 0; /* the end of the text, too */
      *point = *point << 6 | (text[i] & 0x3F);
    }
    return forms[form].length;
  }
  return 0;
}

/* Says whether a character commands a terminal, hides, or reorders what stands beside it. */
static bool acts(uint32_t point) {
  return point < ' ' || (point >= 0x7F && point < 0xA0) || point == 0xAD || point == 0x61C ||
         (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2060 && point <= 0x206F) || point == 0xFEFF ||
         (point >= 0xD800 && point <= 0xDFFF) || point >= 0xE0000;
}

/* Copies a message with \xNN for each byte of what must not reach a terminal: names that somebody
 * else chose are quoted. `out` has ESCAPED_BYTES for each byte. */
static void escape(const char *message, char *out) {
  const unsigned char *text = (const unsigned char *)message;
  while (*text != '\0') {
    uint32_t point = 0;
    size_t length = decode(text, &point);
    if (length > 0 && !acts(point)) {
      (void)memcpy(out, text, length);
      out += length;
      text += length;
      continue;
    }
    for (size_t left = length > 0 ? length : 1; left > 0; left--)
      out += sprintf(out, "\\x%02x", *text++);
  }
  *out = '\0';
}

void diag(const char *format, ...) {
  char message[MESSAGE_BYTES];
  char escaped[ESCAPED_BYTES * MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(message, sizeof message, format, arguments); /* a cut message is still useful */
  va_end(arguments);
  escape(message, escaped);
  /* Two programs share this; nowhere is left to report a failure. */
  (void)fprintf(stderr, "%s: %s\n", program_invocation_short_name, escaped);
}
