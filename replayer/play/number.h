/* Numbers from outside the program, checked. */
#ifndef TRACEKIT_PLAY_NUMBER_H
#define TRACEKIT_PLAY_NUMBER_H

#include <stdint.h>

/* An exact ratio of two integers, in lowest terms. */
struct fraction {
  uint64_t numerator;   /* 1 to 10^9 */
  uint64_t denominator; /* 1 to 10^9 */
};

/* Reads a whole decimal number between `minimum` and `maximum`. Returns 0, -EINVAL (no number) or
 * -ERANGE. */
int number_parse(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *out);

/* Reads "2", "0.25" or "3/2" exactly. Returns 0, -EINVAL (no such number, or zero) or -ERANGE. */
int fraction_parse(const char *text, struct fraction *out);

/* Returns value_ns / speed, rounded down, without overflow or floating point; INT64_MAX (292 years)
 * for all that is longer, so that a clock value can be added. */
uint64_t fraction_divide(uint64_t value_ns, const struct fraction *speed);

#endif
