#include "play/number.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define FRACTION_MAX 1000000000U

__extension__ typedef unsigned __int128 wide;

static bool digit(char character) { return character >= '0' && character <= '9'; }

/* Reads digits into *value; returns the first character after them, NULL when there is none or the
 * value passes `maximum`. */
static const char *digits(const char *text, uint64_t maximum, uint64_t *value) {
  if (!digit(*text))
    return NULL;
  for (*value = 0; digit(*text); text++) {
    uint64_t next = (uint64_t)(*text - '0');
    if (next > maximum || *value > (maximum - next) / 10)
      return NULL;
    *value = *value * 10 + next;
  }
  return text;
}

int number_parse(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *out) {
  size_t length = strspn(text, "0123456789");
  if (length == 0 || text[length] != '\0')
    return -EINVAL;
  if (digits(text, maximum, out) == NULL || *out < minimum)
    return -ERANGE;
  return 0;
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b) {
  while (b != 0) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Appends the digits after the point to the numerator, so that 0.25 is 25/100. */
static int add_decimals(const char *text, struct fraction *value) {
  if (*text == '\0')
    return -EINVAL;
  for (; *text != '\0'; text++) {
    if (!digit(*text))
      return -EINVAL;
    if (value->denominator > FRACTION_MAX / 10 || value->numerator > FRACTION_MAX / 10 - 1)
      return -ERANGE;
    value->numerator = value->numerator * 10 + (uint64_t)(*text - '0');
    value->denominator *= 10;
  }
  return 0;
}

int fraction_parse(const char *text, struct fraction *out) {
  /* Exact integers: a deadline of a long plan must not move by a rounding. */
  struct fraction value = {.numerator = 0, .denominator = 1};
  const char *rest = digits(text, FRACTION_MAX, &value.numerator);
  if (rest == NULL)
    return -EINVAL;
  int rc = 0;
  if (*rest == '/')
    rc = number_parse(rest + 1, 1, FRACTION_MAX, &value.denominator);
  else if (*rest == '.')
    rc = add_decimals(rest + 1, &value);
  else if (*rest != '\0')
    rc = -EINVAL;
  if (rc != 0)
    return rc;
  if (value.numerator == 0)
    return -EINVAL;
  uint64_t divisor = greatest_divisor(value.numerator, value.denominator);
  out->numerator = value.numerator / divisor;
  out->denominator = value.denominator / divisor;
  return 0;
}

uint64_t fraction_divide(uint64_t value_ns, const struct fraction *speed) {
  if (speed->numerator == speed->denominator)
    return value_ns < INT64_MAX ? value_ns : INT64_MAX;
  wide scaled = (wide)value_ns * speed->denominator / speed->numerator;
  return scaled > INT64_MAX ? INT64_MAX : (uint64_t)scaled;
}
