#include "model/tier_order.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static bool is_time(double time_us) { return isfinite(time_us) && time_us >= 0; }

int tier_set_init(struct tier_set *set, const struct tk_tier *tiers, uint32_t count) {
  if (count < TIERS_MIN || count > TIERS_MAX)
    return -EINVAL;
  set->count = count;
  for (uint32_t tier = 0; tier < count; tier++) {
    if (!is_time(tiers[tier].read_us) || !is_time(tiers[tier].write_us))
      return -EINVAL;
    set->tier[tier] = tiers[tier];
  }
  return 0;
}

double tier_saving(const struct tier_set *set, uint32_t from, uint32_t to, int64_t reads,
                   int64_t writes) {
  const double read_us = set->tier[from].read_us - set->tier[to].read_us;
  const double write_us = set->tier[from].write_us - set->tier[to].write_us;
  return read_us * (double)reads + write_us * (double)writes;
}

/* Sorts the faster tiers by score, by insertion: there are at most seven. */
static void prefer(const struct tier_set *set, int64_t reads, int64_t writes,
                   struct tier_rank *rank) {
  const uint32_t slowest = set->count - 1;
  double score[TIERS_MAX - 1];
  for (uint32_t tier = 0; tier < slowest; tier++) {
    const double own = tier_saving(set, slowest, tier, reads, writes);
    uint32_t place = tier;
    for (; place > 0 && score[place - 1] <= own; place--) {
      score[place] = score[place - 1];
      rank->preference[place] = rank->preference[place - 1];
    }
    score[place] = own;
    rank->preference[place] = (uint8_t)tier;
  }
  rank->score = score[0];
}

static int compare(const void *left, const void *right) {
  const struct tier_rank *a = left;
  const struct tier_rank *b = right;
  if (a->score != b->score)
    return a->score > b->score ? -1 : 1;
  return a->item < b->item ? -1 : a->item > b->item;
}

void tier_rank_items(const struct tier_set *set, const int64_t *reads, const int64_t *writes,
                     uint32_t count, struct tier_rank *ranks) {
  for (uint32_t item = 0; item < count; item++) {
    ranks[item] = (struct tier_rank){.item = item};
    prefer(set, reads[item], writes[item], &ranks[item]);
  }
  if (count > 0)
    qsort(ranks, count, sizeof *ranks, compare);
}

uint32_t tier_take(const struct tier_set *set, const struct tier_rank *rank,
                   uint32_t *places_left) {
  const uint32_t slowest = set->count - 1;
  for (uint32_t choice = 0; choice < slowest; choice++) {
    const uint32_t tier = rank->preference[choice];
    if (places_left[tier] > 0) {
      places_left[tier]--;
      return tier;
    }
  }
  return slowest;
}
