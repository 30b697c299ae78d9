/* Where requests begin: places of a region, evenly, by Zipf's law, by shares, or used before. */
#ifndef TRACEKIT_WORKLOAD_PLACE_H
#define TRACEKIT_WORKLOAD_PLACE_H

#include <stdint.h>

#include "workload/dist.h"
#include "workload/recency.h"

enum place_kind {
  PLACE_UNIFORM, /* every aligned place is as likely */
  PLACE_ZIPF,    /* blocks by rank, places within a block evenly */
  PLACE_SHARES   /* the same, but ranks by cumulated shares */
};

struct place_setup {
  uint32_t kind;
  uint32_t count;          /* of the shares */
  uint64_t first_sector;   /* the region */
  uint64_t sectors;        /* at least align_sectors */
  uint64_t align_sectors;  /* at least 1; places are multiples of it from the region's start */
  uint64_t block_sectors;  /* a multiple of align_sectors; of the kinds with blocks */
  uint64_t key;            /* where the popular blocks lie */
  double exponent;         /* of Zipf's law, above 0 */
  const double *blocks_to; /* shares of the blocks and of the requests, cumulated, both to 1 */
  const double *requests_to;
  double reuse_ratio;   /* of the requests that begin where one began before; 0: none is meant to */
  struct dist distance; /* which of them: 1 is the last one used; beyond the first: a new one */
  uint64_t most_places; /* that are remembered, if reuse_ratio is above 0 */
};

/* A keyed permutation of the numbers below a count, so that popular blocks lie anywhere. */
struct permutation {
  uint64_t count;
  uint64_t key;
  uint64_t half_mask; /* of half of the bits that hold the numbers */
  unsigned half_bits;
};

/* Ranks by Zipf's law in constant time and memory: rejection-inversion, Hormann and Derflinger
 * 1996. */
struct zipf {
  double exponent;
  double count;
  double first; /* H(1.5) - 1 */
  double last;  /* H(count + 0.5) */
  double sure;  /* ranks this close to the inverse are taken at once */
};

struct place {
  struct place_setup setup;
  struct permutation permutation;
  struct zipf zipf;
  struct recency *recency; /* NULL without reuse */
  uint64_t blocks;
};

/* Without `remembers` no places are used again. Returns 0, -EINVAL or -ENOMEM. What
 * the setup points to is not copied. Release with place_end in any case. */
int place_init(struct place *place, const struct place_setup *setup, int remembers);

/* Finds where a request of so many sectors, which the region holds, begins. Returns 0 or -ENOMEM.
 */
int place_next(struct place *place, uint64_t sectors, struct rng *rng, uint64_t *sector);

/* Returns a place by the kind alone, from the region's start. */
uint64_t place_draw(const struct place *place, uint64_t sectors, struct rng *rng);

void place_end(struct place *place);

#endif
