#include "read/date.h"

#include "read/text_scan.h"

#define FIRST_YEAR 1970
#define LAST_YEAR 2115 /* sums of two times are 64-bit numbers of ns */
#define NS_DIGITS 9
#define DAY_S 86400
#define NS_PER_S INT64_C(1000000000)

/* Reads exactly so many digits. */
static bool read_digits(const char **at, unsigned count, int *out) {
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
  if (!read_digits(at, 4, &year) || (**at != '-' && **at != '/'))
    return false;
  char between = *(*at)++;
  if (!read_digits(at, 2, &month) || !scan_letter(at, between) || !read_digits(at, 2, &day))
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
  if (!read_digits(at, 2, &hour) || !scan_letter(at, ':') || !read_digits(at, 2, &minute) ||
      !scan_letter(at, ':') || !read_digits(at, 2, &second))
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
  if (!read_digits(at, 2, &hours) || hours > 14)
    return false;
  if (**at == ':' || is_digit(**at)) {
    *at += **at == ':';
    if (!read_digits(at, 2, &minutes) || minutes > 59)
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
