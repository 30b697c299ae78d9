#include "read/text_values.h"

#include <endian.h>
#include <string.h>

#include "read/text_scan.h"

#define MOST_EXPONENT 99 /* of two digits */
#define FIRST_YEAR 1970
#define LAST_YEAR 2115 /* sums of two times are 64-bit numbers of ns */
#define NS_DIGITS 9
#define DAY_S 86400
#define NS_PER_S INT64_C(1000000000)

static const int64_t powers[] = {1,      10,      100,      1000,      10000,
                                 100000, 1000000, 10000000, 100000000, 1000000000};

/* How many of the eight bytes, the first one lowest, are digits before another letter. */
static unsigned count_digits(uint64_t eight) {
  uint64_t digits = eight ^ 0x3030303030303030u; /* below 10 if it is one */
  uint64_t others = (digits | (digits + 0x7676767676767676u)) & 0x8080808080808080u;
  return others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
}

/* The number of the first `count` of eight digits, 1 to 8: pairs, then fours, then all. */
static uint64_t join_digits(uint64_t eight, unsigned count) {
  uint64_t digits = (eight ^ 0x3030303030303030u) << (64 - 8 * count);
  digits = digits * 10 + (digits >> 8);
  uint64_t high = (digits & 0x000000FF000000FFu) * 0x000F424000000064u;
  uint64_t low = ((digits >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u;
  return (high + low) >> 32;
}

/* As scan_number, eight digits at a time where the text has eight bytes more before `limit`. */
static bool scan_long_number(const char **at, const char *limit, uint64_t *out) {
  static const uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
  const char *begin = *at, *p = begin;
  uint64_t value = 0, eight;
  unsigned count = 8;
  while (count == 8 && limit - p >= 8 && p - begin <= MOST_DIGITS - 8) {
    memcpy(&eight, p, sizeof(eight));
    eight = le64toh(eight);
    count = count_digits(eight);
    if (count)
      value = value * powers[count] + join_digits(eight, count);
    p += count;
  }
  if (count == 8)
    for (; is_digit(*p) && p - begin <= MOST_DIGITS; p++)
      value = value * 10 + (uint64_t)(*p - '0');
  *at = p;
  *out = value;
  return p > begin && p - begin <= MOST_DIGITS;
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

static bool read_decimal_digits(const char **at, const char *limit, int64_t *out) {
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
  return read_decimal_digits(at, limit, out);
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
    while (i < count && !is_digit(*digit))
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

/* A point, or a comma before digits where commas are points. */
static bool is_point(const char *at, char comma) {
  return *at == '.' || (*at == comma && is_digit(at[1]));
}

/* A decimal of any number of digits: they are taken one after the other. */
static bool read_any_decimal(const char **at, int digits, char comma, bool *has_point,
                             int64_t *out) {
  const char *begin = *at, *p = begin;
  int whole = 0, count = 0, exponent = 0;
  for (; is_digit(*p); p++)
    whole++;
  count = whole;
  *has_point = is_point(p, comma);
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

bool number_decimal(const char **at, const char *limit, unsigned digits, char comma,
                    bool *has_point, int64_t *out) {
  const char *begin = *at;
  int64_t whole, fraction = 0;
  unsigned count = 0;
  bool is_usual = read_decimal_digits(at, limit, &whole);
  *has_point = is_point(*at, comma);
  if (*has_point)
    for (++*at; is_digit(**at); ++*at, count++)
      if (count < digits)
        fraction = fraction * 10 + (**at - '0');
  if (!is_usual || (**at | 0x20) == 'e') {
    *at = begin;
    return read_any_decimal(at, (int)digits, comma, has_point, out);
  }
  if (count < digits)
    fraction *= powers[digits - count];
  return !__builtin_mul_overflow(whole, powers[digits], out) &&
         !__builtin_add_overflow(*out, fraction, out);
}

/* Reads exactly so many digits. */
static bool read_some_digits(const char **at, unsigned count, int *out) {
  int value = 0;
  for (unsigned i = 0; i < count; i++, ++*at) {
    if (!is_digit(**at))
      return false;
    value = value * 10 + (**at - '0');
  }
  *out = value;
  return true;
}

static bool is_leap(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

static int days_of(int year, int month) {
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return days[month - 1] + (month == 2 && is_leap(year));
}

/* Reads the day as days since 1970. */
static bool read_day(const char **at, int64_t *out) {
  int year, month, day;
  if (!read_some_digits(at, 4, &year) || (**at != '-' && **at != '/'))
    return false;
  char between = *(*at)++;
  if (!read_some_digits(at, 2, &month) || !scan_letter(at, between) ||
      !read_some_digits(at, 2, &day))
    return false;
  if (year < FIRST_YEAR || year > LAST_YEAR || month < 1 || month > 12 || day < 1 ||
      day > days_of(year, month))
    return false;
  int64_t days = day - 1;
  for (int before = FIRST_YEAR; before < year; before++)
    days += 365 + is_leap(before);
  for (int before = 1; before < month; before++)
    days += days_of(year, before);
  *out = days;
  return true;
}

/* Reads HH:MM:SS as seconds; a leap second is the next one. */
static bool read_clock(const char **at, int64_t *out) {
  int hour, minute, second;
  if (!read_some_digits(at, 2, &hour) || !scan_letter(at, ':') ||
      !read_some_digits(at, 2, &minute) || !scan_letter(at, ':') ||
      !read_some_digits(at, 2, &second))
    return false;
  *out = hour * 3600 + minute * 60 + second;
  return hour < 24 && minute < 60 && second <= 60;
}

/* Reads a point and digits, if they are there, as ns. */
static bool read_fraction(const char **at, int64_t *out) {
  *out = 0;
  if (**at != '.')
    return true;
  const char *begin = ++*at;
  int64_t scale = NS_PER_S;
  for (; is_digit(**at); ++*at)
    if (*at - begin < NS_DIGITS)
      *out += (**at - '0') * (scale /= 10);
  return *at > begin;
}

/* Reads a zone, if one is there, as seconds ahead of UTC. */
static bool read_zone(const char **at, int64_t *out) {
  *out = 0;
  const char *p = skip_blanks(*at);
  if (begins_with(p, "UTC") || (p == *at && (*p | 0x20) == 'z')) {
    *at = p + (*p == 'U' ? 3 : 1);
    return true;
  }
  if (*p != '+' && *p != '-')
    return true;
  int64_t sign = *p == '+' ? 1 : -1;
  int hours, minutes = 0;
  *at = p + 1;
  if (!read_some_digits(at, 2, &hours) || hours > 14)
    return false;
  if (**at == ':' || is_digit(**at)) {
    *at += **at == ':';
    if (!read_some_digits(at, 2, &minutes) || minutes > 59)
      return false;
  }
  *out = sign * (hours * 3600 + minutes * 60);
  return true;
}

bool date_read(const char **at, int64_t *out) {
  int64_t days, seconds, fraction, ahead;
  if (!read_day(at, &days))
    return false;
  if (**at == 'T' || **at == 't')
    ++*at;
  else if (is_blank(**at))
    *at = skip_blanks(*at);
  else
    return false;
  if (!read_clock(at, &seconds) || !read_fraction(at, &fraction) || !read_zone(at, &ahead))
    return false;
  *out = (days * DAY_S + seconds - ahead) * NS_PER_S + fraction;
  return *out >= 0;
}
