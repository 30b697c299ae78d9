#include "workload/place.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>

#include "common/hash.h"

#define FRESH_TRIES 32
#define ROUNDS 4 /* of the permutation */

/* Prepares the permutation of 0 to count - 1; count is above 0. */
static void permutation_init(struct permutation *permutation, uint64_t count, uint64_t key) {
  unsigned half = 1;
  while (half < 32 && ((count - 1) >> (2 * half)) > 0)
    half++;
  *permutation = (struct permutation){count, key, ((uint64_t)1 << half) - 1, half};
}

/* A Feistel network of hashes permutes 2 x half bits; what lies beyond the count is permuted again.
 */
static uint64_t permuted(const struct permutation *permutation, uint64_t number) {
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

/* (exp(x) - 1) / x and log(1 + x) / x, also near 0. */
static double near_exp(double x) { return fabs(x) > 1e-8 ? expm1(x) / x : 1.0 + x / 2.0; }
static double near_log(double x) { return fabs(x) > 1e-8 ? log1p(x) / x : 1.0 - x / 2.0; }

/* The integral of x^-exponent from 1, its inverse and the density itself. */
static double integral(double exponent, double x) {
  double log_x = log(x);
  return near_exp((1.0 - exponent) * log_x) * log_x;
}

static double inverse(double exponent, double x) {
  double t = fmax(x * (1.0 - exponent), -1.0);
  return exp(near_log(t) * x);
}

static double density(double exponent, double x) { return exp(-exponent * log(x)); }

/* Prepares ranks 1 to `count` (at least 1) with probability ~ rank^-exponent, which is above 0. */
static void zipf_init(struct zipf *zipf, double exponent, uint64_t count) {
  zipf->exponent = exponent;
  zipf->count = (double)count;
  zipf->first = integral(exponent, 1.5) - 1.0;
  zipf->last = integral(exponent, zipf->count + 0.5);
  zipf->sure = 2.0 - inverse(exponent, integral(exponent, 2.5) - density(exponent, 2.0));
}

/* Draws a rank less 1. */
static uint64_t zipf_draw(const struct zipf *zipf, struct rng *rng) {
  for (;;) {
    double u = zipf->last + rng_unit(rng) * (zipf->first - zipf->last);
    double x = inverse(zipf->exponent, u);
    double rank = fmin(fmax(floor(x + 0.5), 1.0), zipf->count);
    if (rank - x <= zipf->sure ||
        u >= integral(zipf->exponent, rank + 0.5) - density(zipf->exponent, rank))
      return (uint64_t)rank - 1;
  }
}

static int shares_are_valid(const double *to, uint32_t count) {
  if (to == NULL || count == 0 || !(to[0] >= 0.0))
    return 0;
  for (uint32_t at = 1; at < count; at++)
    if (!(to[at] >= to[at - 1]))
      return 0;
  return to[count - 1] == 1.0;
}

static int setup_is_valid(const struct place_setup *setup) {
  if (setup->align_sectors == 0 || setup->sectors < setup->align_sectors)
    return 0;
  if (setup->reuse_ratio > 0.0 && !dist_is_valid(&setup->distance))
    return 0;
  if (!(setup->reuse_ratio >= 0.0 && setup->reuse_ratio <= 1.0))
    return 0;
  if (setup->kind == PLACE_UNIFORM)
    return 1;
  if (setup->block_sectors == 0 || setup->block_sectors % setup->align_sectors != 0)
    return 0;
  if (setup->kind == PLACE_ZIPF)
    return isfinite(setup->exponent) && setup->exponent > 0.0;
  return setup->kind == PLACE_SHARES && shares_are_valid(setup->blocks_to, setup->count) &&
         shares_are_valid(setup->requests_to, setup->count);
}

int place_init(struct place *place, const struct place_setup *setup, int remembers) {
  *place = (struct place){.setup = *setup};
  if (!setup_is_valid(setup))
    return -EINVAL;
  if (setup->kind != PLACE_UNIFORM) {
    uint64_t blocks = setup->sectors / setup->block_sectors;
    place->blocks = blocks > 0 ? blocks : 1;
    permutation_init(&place->permutation, place->blocks, setup->key);
    if (setup->kind == PLACE_ZIPF)
      zipf_init(&place->zipf, setup->exponent, place->blocks);
  }
  if (!remembers || setup->reuse_ratio == 0.0)
    return 0;
  return recency_new(setup->most_places, &place->recency);
}

/* Returns a rank by shares: even among the blocks of one step of the table. */
static uint64_t rank_by_shares(const struct place *place, struct rng *rng) {
  const struct place_setup *setup = &place->setup;
  double unit = rng_unit(rng);
  uint32_t at = 0;
  while (at + 1 < setup->count && setup->requests_to[at] <= unit)
    at++;
  double from = at > 0 ? setup->blocks_to[at - 1] : 0.0;
  uint64_t low = (uint64_t)(from * (double)place->blocks);
  uint64_t high = (uint64_t)(setup->blocks_to[at] * (double)place->blocks);
  if (low >= place->blocks)
    low = place->blocks - 1;
  return low + rng_below(rng, high > low ? high - low : 1);
}

static uint64_t block_of(const struct place *place, struct rng *rng) {
  uint64_t rank =
      place->setup.kind == PLACE_ZIPF ? zipf_draw(&place->zipf, rng) : rank_by_shares(place, rng);
  return permuted(&place->permutation, rank);
}

/* Returns the number of the aligned places that a run of so many sectors has in `extent_sectors`
 * sectors. */
static uint64_t choices(const struct place_setup *setup, uint64_t extent_sectors,
                        uint64_t sectors) {
  return extent_sectors > sectors ? (extent_sectors - sectors) / setup->align_sectors + 1 : 1;
}

uint64_t place_draw(const struct place *place, uint64_t sectors, struct rng *rng) {
  const struct place_setup *setup = &place->setup;
  uint64_t start = 0;
  uint64_t extent_sectors = setup->sectors;
  if (setup->kind != PLACE_UNIFORM) {
    start = block_of(place, rng) * setup->block_sectors;
    extent_sectors = setup->block_sectors;
  }
  start += rng_below(rng, choices(setup, extent_sectors, sectors)) * setup->align_sectors;
  uint64_t last = (choices(setup, setup->sectors, sectors) - 1) * setup->align_sectors;
  return start < last ? start : last;
}

static uint64_t draw_fresh(const struct place *place, uint64_t sectors, struct rng *rng) {
  uint64_t start = place_draw(place, sectors, rng);
  for (int left = FRESH_TRIES; left > 0 && recency_has(place->recency, start); left--)
    start = place_draw(place, sectors, rng);
  return start;
}

int place_next(struct place *place, uint64_t sectors, struct rng *rng, uint64_t *sector) {
  const struct place_setup *setup = &place->setup;
  if (place->recency == NULL) {
    *sector = setup->first_sector + place_draw(place, sectors, rng);
    return 0;
  }
  uint64_t start = UINT64_MAX;
  if (rng_unit(rng) < setup->reuse_ratio) {
    double back = fmax(floor(dist_draw(&setup->distance, rng)), 1.0);
    if (back <= (double)recency_count(place->recency))
      start = recency_at(place->recency, (uint64_t)back - 1);
  }
  if (start == UINT64_MAX || start + sectors > setup->sectors)
    start = draw_fresh(place, sectors, rng);
  *sector = setup->first_sector + start;
  return recency_use(place->recency, start, 0);
}

void place_end(struct place *place) { recency_free(place->recency); }
