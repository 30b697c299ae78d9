/* Reading numbers and words of one line of text. A line ends with '\n', at which every function
 * stops, so that none needs its end. All advance the cursor `*at` over what they read. */
#ifndef TRACEKIT_READ_TEXT_SCAN_H
#define TRACEKIT_READ_TEXT_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#define MOST_DIGITS 19 /* of a number that surely fits 64 bits */
#define MINOR_BITS 20

static inline bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/* The value of a hexadecimal digit, 16 of another letter. */
static inline unsigned hex_digit(char letter) {
  if (is_digit(letter))
    return (unsigned)(letter - '0');
  letter = (char)(letter | 0x20);
  return letter >= 'a' && letter <= 'f' ? (unsigned)(letter - 'a') + 10 : 16;
}

static inline bool is_blank(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\r';
}

static inline const char *skip_blanks(const char *at) {
  while (is_blank(*at))
    at++;
  return at;
}

/* Says whether the text stands here; nothing behind the first difference is read. */
static inline bool begins_with(const char *at, const char *text) {
  for (; *text && *at == *text; text++)
    at++;
  return *text == '\0';
}

/* A decimal number of at most 19 digits. */
static inline bool scan_number(const char **at, uint64_t *out) {
  const char *begin = *at, *p = begin;
  uint64_t value = 0;
  for (; is_digit(*p) && p - begin <= MOST_DIGITS; p++)
    value = value * 10 + (uint64_t)(*p - '0');
  *at = p;
  *out = value;
  return p > begin && p - begin <= MOST_DIGITS;
}

/* The same, at most `most`. */
static inline bool scan_u32(const char **at, uint32_t most, uint32_t *out) {
  uint64_t value;
  bool is_good = scan_number(at, &value) && value <= most;
  *out = (uint32_t)value;
  return is_good;
}

/* Just this letter. */
static inline bool scan_letter(const char **at, char letter) {
  bool is_it = **at == letter;
  *at += is_it;
  return is_it;
}

/* "major,minor" with blanks around the numbers, as major << 20 | minor. */
static inline bool scan_device(const char **at, uint32_t *out) {
  uint32_t major = 0, minor = 0;
  *at = skip_blanks(*at);
  if (!scan_u32(at, 0xfff, &major) || !scan_letter(at, ','))
    return false;
  *at = skip_blanks(*at);
  bool is_good = scan_u32(at, (1u << MINOR_BITS) - 1, &minor);
  *out = major << MINOR_BITS | minor;
  return is_good;
}

/* What stands behind the point of a time: 1 to 9 digits, as nanoseconds. Nine are the usual, whose
 * products do not wait for one another. */
static inline bool scan_fraction(const char **at, uint64_t *out_ns) {
  const char *p = *at;
  unsigned digits = 0;
  while (digits < 10 && is_digit(p[digits]))
    digits++;
  if (digits == 0 || digits > 9)
    return false;
  *at = p + digits;
  if (digits == 9) {
    uint32_t high = (uint32_t)(p[0] - '0') * 100000000u + (uint32_t)(p[1] - '0') * 10000000u +
                    (uint32_t)(p[2] - '0') * 1000000u + (uint32_t)(p[3] - '0') * 100000u;
    uint32_t low = (uint32_t)(p[4] - '0') * 10000u + (uint32_t)(p[5] - '0') * 1000u +
                   (uint32_t)(p[6] - '0') * 100u + (uint32_t)(p[7] - '0') * 10u +
                   (uint32_t)(p[8] - '0');
    *out_ns = high + low;
    return true;
  }
  uint64_t value = 0;
  for (unsigned i = 0; i < 9; i++)
    value = value * 10 + (i < digits ? (uint64_t)(p[i] - '0') : 0);
  *out_ns = value;
  return true;
}

/* Seconds, a point and 1 to 9 digits, as nanoseconds. */
static inline bool scan_time(const char **at, uint64_t *out_ns) {
  uint64_t seconds = 0, fraction_ns = 0;
  *at = skip_blanks(*at);
  bool is_good = scan_number(at, &seconds) && seconds < 4000000000u && scan_letter(at, '.') &&
                 scan_fraction(at, &fraction_ns);
  *out_ns = seconds * 1000000000u + fraction_ns;
  return is_good;
}

#endif
