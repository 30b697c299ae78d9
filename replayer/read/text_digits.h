/* Long numbers of a text, eight digits at a time. */
#ifndef TRACEKIT_READ_TEXT_DIGITS_H
#define TRACEKIT_READ_TEXT_DIGITS_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "read/text_scan.h"

/* How many of the eight bytes, the first one lowest, are digits before another letter. */
static inline unsigned count_digits(uint64_t eight) {
  uint64_t digits = eight ^ 0x3030303030303030u; /* below 10 if it is one */
  uint64_t others = (digits | (digits + 0x7676767676767676u)) & 0x8080808080808080u;
  return others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
}

/* The number of the first `count` of eight digits, 1 to 8: pairs, then fours, then all. */
static inline uint64_t join_digits(uint64_t eight, unsigned count) {
  uint64_t digits = (eight ^ 0x3030303030303030u) << (64 - 8 * count);
  digits = digits * 10 + (digits >> 8);
  uint64_t high = (digits & 0x000000FF000000FFu) * 0x000F424000000064u;
  uint64_t low = ((digits >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u;
  return (high + low) >> 32;
}

/* As scan_number, eight digits at a time where the text has eight bytes more before `limit`. */
static inline bool scan_long_number(const char **at, const char *limit, uint64_t *out) {
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

#endif
