#include "read/number.h"

#include "read/text_digits.h"
#include "read/text_scan.h"

#define MOST_EXPONENT 99 /* of two digits */

static const int64_t powers[] = {1,      10,      100,      1000,      10000,
                                 100000, 1000000, 10000000, 100000000, 1000000000};

static unsigned hex_digit(char letter) {
  if (is_digit(letter))
    return (unsigned)(letter - '0');
  letter = (char)(letter | 0x20);
  return letter >= 'a' && letter <= 'f' ? (unsigned)(letter - 'a') + 10 : 16;
}

static bool read_hex(const char **at, int64_t *out) {
  uint64_t value = 0;
  const char *begin = *at, *p = begin;
  for (unsigned digit; (digit = hex_digit(*p)) < 16 && value >> 59 == 0; p++)
    value = value << 4 | digit;
  *at = p;
  *out = (int64_t)value;
  return p > begin && hex_digit(*p) == 16 && value <= INT64_MAX;
}

static bool read_digits(const char **at, const char *limit, int64_t *out) {
  uint64_t value;
  bool is_good = scan_long_number(at, limit, &value) && value <= INT64_MAX;
  *out = (int64_t)value;
  return is_good;
}

bool number_integer(const char **at, const char *limit, int64_t *out) {
  if (**at == '0' && ((*at)[1] | 0x20) == 'x') {
    *at += 2;
    return read_hex(at, out);
  }
  return read_digits(at, limit, out);
}

/* Takes e and an exponent of one or two digits. Returns false when there is none. */
static bool read_exponent(const char **at, int *out) {
  const char *p = *at + 1;
  bool is_negative = *p == '-';
  p += is_negative || *p == '+';
  const char *begin = p;
  int value = 0;
  for (; is_digit(*p) && value <= MOST_EXPONENT; p++)
    value = value * 10 + (*p - '0');
  *at = p;
  *out = is_negative ? -value : value;
  return p > begin && value <= MOST_EXPONENT;
}

/* Writes the first `wanted` of `count` digits, a point among them passed over, as one number. */
static bool scale(const char *digit, int count, int wanted, int64_t *out) {
  int64_t value = 0;
  for (int i = 0; i < wanted; i++) {
    while (i < count && *digit == '.')
      digit++;
    int next = i < count ? *digit++ - '0' : 0;
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, next, &value))
      return false;
    if (i >= count && value == 0)
      break; /* nothing but zeros */
  }
  *out = value;
  return true;
}

/* A decimal of any number of digits: they are taken one after the other. */
static bool read_any_decimal(const char **at, int digits, bool *has_point, int64_t *out) {
  const char *begin = *at, *p = begin;
  int whole = 0, count = 0, exponent = 0;
  for (; is_digit(*p); p++)
    whole++;
  count = whole;
  *has_point = *p == '.';
  if (*has_point)
    for (p++; is_digit(*p); p++)
      count++;
  if ((*p | 0x20) == 'e') {
    *has_point = true;
    if (!read_exponent(&p, &exponent))
      return false;
  }
  *at = p;
  return whole > 0 && scale(begin, count, whole + exponent + digits, out);
}

bool number_decimal(const char **at, const char *limit, unsigned digits, bool *has_point,
                    int64_t *out) {
  const char *begin = *at;
  int64_t whole, fraction = 0;
  unsigned count = 0;
  bool is_usual = read_digits(at, limit, &whole);
  *has_point = **at == '.';
  if (*has_point)
    for (++*at; is_digit(**at); ++*at, count++)
      if (count < digits)
        fraction = fraction * 10 + (**at - '0');
  if (!is_usual || (**at | 0x20) == 'e') {
    *at = begin;
    return read_any_decimal(at, (int)digits, has_point, out);
  }
  if (count < digits)
    fraction *= powers[digits - count];
  return !__builtin_mul_overflow(whole, powers[digits], out) &&
         !__builtin_add_overflow(*out, fraction, out);
}
