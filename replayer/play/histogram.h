/* A log-linear histogram of nanoseconds in constant memory: exact below 128 ns, then 128 steps an
 * octave, so a percentile is never off by more than 0.8 %. */
#ifndef TRACEKIT_PLAY_HISTOGRAM_H
#define TRACEKIT_PLAY_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 7U
#define HISTOGRAM_TOP_BITS 44U /* values from 2^44 ns (4.9 hours) share the last step */
#define HISTOGRAM_STEPS ((HISTOGRAM_TOP_BITS - HISTOGRAM_SUB_BITS + 1U) << HISTOGRAM_SUB_BITS)

struct histogram {
  uint64_t count;  /* values added */
  uint64_t min_ns; /* meaningless while count is 0 */
  uint64_t max_ns;
  double sum_ns;
  uint64_t steps[HISTOGRAM_STEPS]; /* values in each step */
};

/* Adds one value. */
void histogram_add(struct histogram *histogram, uint64_t value_ns);

/* Adds all values of `other`. */
void histogram_merge(struct histogram *histogram, const struct histogram *other);

/* Returns the value that `parts` of 100,000 values do not pass (99,900 is p99.9): the upper end of
 * its step, but not more than the largest value added; 0 when there is none. */
uint64_t histogram_percentile(const struct histogram *histogram, uint64_t parts);

/* Returns how many ns wide a step is, 0 beyond the last. */
uint64_t histogram_step_width(unsigned step);

/* Returns the mean in ns, 0 when there is no value. */
double histogram_mean(const struct histogram *histogram);

#endif
