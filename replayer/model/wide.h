/* Sums of times that 64 bits may not hold. */
#ifndef TRACEKIT_MODEL_WIDE_H
#define TRACEKIT_MODEL_WIDE_H

#include <stdint.h>

struct tk_wide {
  uint64_t low;
  uint64_t high;
};

/* Adds a time, which must not be negative. */
static inline void add_wide(struct tk_wide *sum, int64_t ps) {
  sum->low += (uint64_t)ps;
  sum->high += sum->low < (uint64_t)ps;
}

#endif
