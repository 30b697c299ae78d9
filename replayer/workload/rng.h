/* PCG64 (O'Neill 2014, XSL-RR 128/64), number for number as numpy's `PCG64.random_raw`. */
#ifndef TRACEKIT_WORKLOAD_RNG_H
#define TRACEKIT_WORKLOAD_RNG_H

#include <stdint.h>

__extension__ typedef unsigned __int128 rng_wide;

struct rng {
  rng_wide state;
  rng_wide increment; /* odd */
};

/* What a generator starts from: its state and increment, the high half of each first. */
struct rng_seed {
  uint64_t state[2];
  uint64_t increment[2];
};

static inline struct rng rng_of(const struct rng_seed *seed) {
  return (struct rng){((rng_wide)seed->state[0] << 64) | seed->state[1],
                      ((rng_wide)seed->increment[0] << 64) | seed->increment[1]};
}

/* Returns 64 random bits. */
static inline uint64_t rng_next(struct rng *rng) {
  const rng_wide factor = ((rng_wide)2549297995355413924ULL << 64) | 4865540595714422341ULL;
  rng->state = rng->state * factor + rng->increment;
  uint64_t folded = (uint64_t)(rng->state >> 64) ^ (uint64_t)rng->state;
  unsigned turn = (unsigned)(rng->state >> 122);
  return (folded >> turn) | (folded << ((64U - turn) & 63U));
}

/* Returns a multiple of 2^-53 from 0 to below 1. */
static inline double rng_unit(struct rng *rng) { return (double)(rng_next(rng) >> 11) * 0x1p-53; }

/* Returns a whole number below `count`, which is above 0; uneven by less than count / 2^64. */
static inline uint64_t rng_below(struct rng *rng, uint64_t count) {
  return (uint64_t)(((rng_wide)rng_next(rng) * count) >> 64);
}

#endif
