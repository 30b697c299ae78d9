#include "workload/permute.h"

#include "common/hash.h"

#define ROUNDS 4

void permutation_init(struct permutation *permutation, uint64_t count, uint64_t key) {
  unsigned half = 1;
  while (half < 32 && ((count - 1) >> (2 * half)) > 0)
    half++;
  *permutation = (struct permutation){count, key, ((uint64_t)1 << half) - 1, half};
}

/* A Feistel network of hashes permutes 2 x half bits; what lies beyond the count walks on. */
uint64_t permuted(const struct permutation *permutation, uint64_t number) {
  do {
    uint64_t left = number >> permutation->half_bits;
    uint64_t right = number & permutation->half_mask;
    for (unsigned round = 0; round < ROUNDS; round++) {
      uint64_t mixed = hash_mix(right + permutation->key + round * 0x9e3779b97f4a7c15ULL);
      uint64_t next = left ^ (mixed & permutation->half_mask);
      left = right;
      right = next;
    }
    number = (left << permutation->half_bits) | right;
  } while (number >= permutation->count);
  return number;
}
