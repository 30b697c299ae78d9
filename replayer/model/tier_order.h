/* The order in which extents ask for a tier, and the tiers that each would like (Kim et al.,
 * FAST'14, section 4.1): the score of a tier is the time that it saves against the slowest one. */
#ifndef TRACEKIT_MODEL_TIER_ORDER_H
#define TRACEKIT_MODEL_TIER_ORDER_H

#include <stdint.h>

enum { TIERS_MIN = 2, TIERS_MAX = 8 };

/* Mean time of 4 KiB on one tier. */
struct tk_tier {
  double read_us;
  double write_us;
};

/* Tiers by number; the last holds what finds no free space on the others, and scores count against
 * it. */
struct tier_set {
  struct tk_tier tier[TIERS_MAX];
  uint32_t count;
};

/* What one extent wants. */
struct tier_rank {
  double score;                      /* largest over the faster tiers, us times amount */
  uint32_t item;                     /* its place in the arrays of traffic */
  uint8_t preference[TIERS_MAX - 1]; /* the faster tiers, best first; of equals the later tier */
};

/* Copies the tiers. Returns 0, or -EINVAL for a number of tiers out of range or a time that is
 * negative or not finite. */
int tier_set_init(struct tier_set *set, const struct tk_tier *tiers, uint32_t count);

/* Returns the time that moving this traffic between two tiers saves, in us times amount. */
double tier_saving(const struct tier_set *set, uint32_t from, uint32_t to, int64_t reads,
                   int64_t writes);

/* Writes one rank an item, by descending score; of equals the lower item comes first. */
void tier_rank_items(const struct tier_set *set, const int64_t *reads, const int64_t *writes,
                     uint32_t count, struct tier_rank *ranks);

/* Takes a place on the first tier of the rank's preference that has one left and returns that
 * tier, or the last tier when none has. `places_left` counts extents, one entry a faster tier. */
uint32_t tier_take(const struct tier_set *set, const struct tier_rank *rank, uint32_t *places_left);

#endif
