/* A time that is not the same for each request: its distribution by quantiles. */
#ifndef TRACEKIT_PLAY_QUANTILES_H
#define TRACEKIT_PLAY_QUANTILES_H

#include <stddef.h>
#include <stdint.h>

#define QUANTILES_MAX 64U

/* Between two quantiles the logarithm of the time is a straight line over the probability. */
struct quantiles {
  uint32_t count;                    /* 0: there is no distribution */
  double probability[QUANTILES_MAX]; /* the first 0, the last 1, rising */
  double time_ns[QUANTILES_MAX];     /* at least 1, not falling */
};

/* Reads "PROBABILITY@NS+..." of `length` characters, 2 to QUANTILES_MAX of them, none above
 * `maximum_ns`. Returns 0 or -EINVAL. */
int quantiles_parse(const char *text, size_t length, uint64_t maximum_ns, struct quantiles *out);

/* Returns the time that belongs to 64 random bits, rounded to ns. There must be a distribution. */
uint64_t quantiles_draw_ns(const struct quantiles *quantiles, uint64_t random);

#endif
