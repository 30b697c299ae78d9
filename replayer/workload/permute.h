/* A keyed permutation of the numbers below a count, so that popular blocks lie anywhere. */
#ifndef TRACEKIT_WORKLOAD_PERMUTE_H
#define TRACEKIT_WORKLOAD_PERMUTE_H

#include <stdint.h>

struct permutation {
  uint64_t count;
  uint64_t key;
  uint64_t half_mask; /* of half of the bits that hold the numbers */
  unsigned half_bits;
};

/* Prepares the permutation of 0 to count - 1; count is above 0. */
void permutation_init(struct permutation *permutation, uint64_t count, uint64_t key);

/* Returns the number that stands in the place of `number`, which is below the count. */
uint64_t permuted(const struct permutation *permutation, uint64_t number);

#endif
