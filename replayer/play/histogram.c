#include "play/histogram.h"

#define SUB_STEPS (1U << HISTOGRAM_SUB_BITS)

static unsigned step_of(uint64_t value_ns) {
  if (value_ns < SUB_STEPS)
    return (unsigned)value_ns;
  if (value_ns >> HISTOGRAM_TOP_BITS != 0)
    return HISTOGRAM_STEPS - 1;
  unsigned exponent = 63U - (unsigned)__builtin_clzll(value_ns);
  unsigned shift = exponent - HISTOGRAM_SUB_BITS;
  return ((shift + 1U) << HISTOGRAM_SUB_BITS) + ((unsigned)(value_ns >> shift) & (SUB_STEPS - 1));
}

/* The largest value that falls into a step. */
static uint64_t step_end(unsigned step) {
  if (step < SUB_STEPS)
    return step;
  unsigned shift = (step >> HISTOGRAM_SUB_BITS) - 1U;
  uint64_t base = (uint64_t)(SUB_STEPS + (step & (SUB_STEPS - 1)));
  return ((base + 1) << shift) - 1;
}

uint64_t histogram_step_width(unsigned step) {
  if (step >= HISTOGRAM_STEPS)
    return 0;
  return step == 0 ? 1 : step_end(step) - step_end(step - 1);
}

void histogram_add(struct histogram *histogram, uint64_t value_ns) {
  if (histogram->count == 0 || value_ns < histogram->min_ns)
    histogram->min_ns = value_ns;
  if (value_ns > histogram->max_ns)
    histogram->max_ns = value_ns;
  histogram->count++;
  histogram->sum_ns += (double)(int64_t)value_ns; /* half the steps of an unsigned one */
  histogram->steps[step_of(value_ns)]++;
}

void histogram_merge(struct histogram *histogram, const struct histogram *other) {
  if (other->count == 0)
    return;
  if (histogram->count == 0 || other->min_ns < histogram->min_ns)
    histogram->min_ns = other->min_ns;
  if (other->max_ns > histogram->max_ns)
    histogram->max_ns = other->max_ns;
  histogram->count += other->count;
  histogram->sum_ns += other->sum_ns;
  for (unsigned step = 0; step < HISTOGRAM_STEPS; step++)
    histogram->steps[step] += other->steps[step];
}

uint64_t histogram_percentile(const struct histogram *histogram, uint64_t parts) {
  if (histogram->count == 0)
    return 0;
  uint64_t rank = (histogram->count * parts + 99999) / 100000;
  uint64_t seen = 0;
  for (unsigned step = 0; step < HISTOGRAM_STEPS; step++) {
    seen += histogram->steps[step];
    if (seen >= rank && seen > 0 && step < HISTOGRAM_STEPS - 1) {
      uint64_t end = step_end(step);
      return end < histogram->max_ns ? end : histogram->max_ns;
    }
  }
  return histogram->max_ns;
}

double histogram_mean(const struct histogram *histogram) {
  return histogram->count == 0 ? 0.0 : histogram->sum_ns / (double)histogram->count;
}
