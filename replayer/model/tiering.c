#include "model/tiering.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SETS = 1 << (TIERING_MAX_SUMMED - 1), EVERYTHING = 0 };

/* Sums over the first extents of the order, of those that choose one tier. */
struct series {
  uint32_t *extents; /* extents + 1 entries each */
  int64_t *reads;
  int64_t *writes;
};

struct tiering {
  struct tier_set tiers;
  const int64_t *reads; /* by extent */
  const int64_t *writes;
  struct tier_rank *ranks; /* in the order of placement */
  uint32_t extents;
  uint32_t series_count;
  /* By the set of tiers with free space (a bit each) and the tier that is chosen. A set of one tier
   * takes everything, so all of these share one series. */
  uint32_t series_of[SETS][TIERING_MAX_SUMMED - 1];
  struct series *series;
};

static bool is_summed(const struct tiering *tiering) {
  return tiering->tiers.count <= TIERING_MAX_SUMMED;
}

static bool has_one(uint32_t set) { return (set & (set - 1)) == 0; }

static bool adds_up(const int64_t *reads, const int64_t *writes, uint32_t extents) {
  int64_t left = INT64_MAX;
  for (uint32_t extent = 0; extent < extents; extent++) {
    if (reads[extent] < 0 || writes[extent] < 0 || reads[extent] > left)
      return false;
    left -= reads[extent];
    if (writes[extent] > left)
      return false;
    left -= writes[extent];
  }
  return true;
}

static void number_series(struct tiering *tiering) {
  const uint32_t faster = tiering->tiers.count - 1;
  tiering->series_count = EVERYTHING + 1;
  for (uint32_t set = 1; set < 1u << faster; set++) {
    for (uint32_t tier = 0; tier < faster; tier++) {
      if (set & 1u << tier)
        tiering->series_of[set][tier] = has_one(set) ? EVERYTHING : tiering->series_count++;
    }
  }
}

static uint32_t best_of(const struct tier_rank *rank, uint32_t set) {
  const uint8_t *tier = rank->preference;
  while (!(set & 1u << *tier))
    tier++;
  return *tier;
}

static void carry_on(struct series *series, uint32_t place) {
  series->extents[place + 1] = series->extents[place];
  series->reads[place + 1] = series->reads[place];
  series->writes[place + 1] = series->writes[place];
}

static void count_in(const struct tiering *tiering, uint32_t series, uint32_t place) {
  const uint32_t extent = tiering->ranks[place].item;
  const struct series *sums = &tiering->series[series];
  sums->extents[place + 1]++;
  sums->reads[place + 1] += tiering->reads[extent];
  sums->writes[place + 1] += tiering->writes[extent];
}

static void sum_up(struct tiering *tiering) {
  const uint32_t sets = 1u << (tiering->tiers.count - 1);
  for (uint32_t place = 0; place < tiering->extents; place++) {
    for (uint32_t series = 0; series < tiering->series_count; series++)
      carry_on(&tiering->series[series], place);
    count_in(tiering, EVERYTHING, place);
    for (uint32_t set = 1; set < sets; set++) {
      if (!has_one(set)) {
        const uint32_t tier = best_of(&tiering->ranks[place], set);
        count_in(tiering, tiering->series_of[set][tier], place);
      }
    }
  }
}

static int make_series(struct tiering *tiering) {
  const size_t entries = (size_t)tiering->extents + 1;
  number_series(tiering);
  tiering->series = calloc(tiering->series_count, sizeof *tiering->series);
  if (tiering->series == NULL)
    return -ENOMEM;
  for (uint32_t series = 0; series < tiering->series_count; series++) {
    struct series *sums = &tiering->series[series];
    sums->extents = calloc(entries, sizeof *sums->extents);
    sums->reads = calloc(entries, sizeof *sums->reads);
    sums->writes = calloc(entries, sizeof *sums->writes);
    if (sums->extents == NULL || sums->reads == NULL || sums->writes == NULL)
      return -ENOMEM;
  }
  sum_up(tiering);
  return 0;
}

int tk_tiering_new(const struct tk_tier *tiers, uint32_t tier_count, const int64_t *reads,
                   const int64_t *writes, uint32_t extents, struct tiering **out) {
  if (!adds_up(reads, writes, extents))
    return -ERANGE;
  struct tiering *tiering = calloc(1, sizeof *tiering);
  if (tiering == NULL)
    return -ENOMEM;
  int status = tier_set_init(&tiering->tiers, tiers, tier_count);
  if (status)
    goto free_tiering;
  tiering->reads = reads;
  tiering->writes = writes;
  tiering->extents = extents;
  status = -ENOMEM;
  tiering->ranks = malloc(((size_t)extents + 1) * sizeof *tiering->ranks);
  if (tiering->ranks == NULL)
    goto free_tiering;
  tier_rank_items(&tiering->tiers, reads, writes, extents, tiering->ranks);
  status = is_summed(tiering) ? make_series(tiering) : 0;
  if (status)
    goto free_tiering;
  *out = tiering;
  return 0;

free_tiering:
  tk_tiering_free(tiering);
  return status;
}

/* Returns the first place after `place` by which a tier has taken `space` more extents. */
static uint32_t filled_by(const struct tiering *tiering, uint32_t series, uint32_t place,
                          uint32_t space) {
  const uint32_t *counts = tiering->series[series].extents;
  const uint64_t wanted = (uint64_t)counts[place] + space;
  uint32_t low = place;
  uint32_t high = tiering->extents;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (counts[middle] < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void add_between(const struct series *sums, uint32_t from, uint32_t to,
                        struct tk_tier_share *share) {
  share->extents += sums->extents[to] - sums->extents[from];
  share->reads += sums->reads[to] - sums->reads[from];
  share->writes += sums->writes[to] - sums->writes[from];
}

/* Goes on from `place` until one of the tiers in `set` is full, and returns where that is. */
static uint32_t fill_until_full(const struct tiering *tiering, uint32_t set, uint32_t place,
                                uint32_t *space, struct tk_tier_share *shares) {
  const uint32_t faster = tiering->tiers.count - 1;
  uint32_t end = tiering->extents;
  for (uint32_t tier = 0; tier < faster; tier++) {
    if (set & 1u << tier) {
      const uint32_t full = filled_by(tiering, tiering->series_of[set][tier], place, space[tier]);
      end = full < end ? full : end;
    }
  }
  for (uint32_t tier = 0; tier < faster; tier++) {
    if (set & 1u << tier) {
      const struct series *sums = &tiering->series[tiering->series_of[set][tier]];
      space[tier] -= sums->extents[end] - sums->extents[place];
      add_between(sums, place, end, &shares[tier]);
    }
  }
  return end;
}

static void look_up(const struct tiering *tiering, const uint32_t *places,
                    struct tk_tier_share *shares) {
  const uint32_t slowest = tiering->tiers.count - 1;
  uint32_t space[TIERING_MAX_SUMMED - 1];
  uint32_t place = 0;
  for (uint32_t tier = 0; tier <= slowest; tier++)
    shares[tier] = (struct tk_tier_share){0};
  for (uint32_t tier = 0; tier < slowest; tier++)
    space[tier] = places[tier];
  while (place < tiering->extents) {
    uint32_t set = 0;
    for (uint32_t tier = 0; tier < slowest; tier++)
      set |= space[tier] > 0 ? 1u << tier : 0;
    if (set == 0)
      break;
    place = fill_until_full(tiering, set, place, space, shares);
  }
  add_between(&tiering->series[EVERYTHING], place, tiering->extents, &shares[slowest]);
}

/* Algorithm 1; either result may be NULL. */
static void place_all(const struct tiering *tiering, const uint32_t *places, uint8_t *tier_of,
                      struct tk_tier_share *shares) {
  uint32_t left[TIERS_MAX - 1];
  for (uint32_t tier = 0; tier + 1 < tiering->tiers.count; tier++)
    left[tier] = places[tier];
  for (uint32_t place = 0; place < tiering->extents; place++) {
    const struct tier_rank *rank = &tiering->ranks[place];
    const uint32_t tier = tier_take(&tiering->tiers, rank, left);
    if (tier_of != NULL)
      tier_of[rank->item] = (uint8_t)tier;
    if (shares != NULL) {
      shares[tier].extents++;
      shares[tier].reads += tiering->reads[rank->item];
      shares[tier].writes += tiering->writes[rank->item];
    }
  }
}

void tk_tiering_mixes(const struct tiering *tiering, const uint32_t *places, uint64_t mixes,
                      struct tk_tier_share *shares) {
  const uint32_t tiers = tiering->tiers.count;
  for (uint64_t mix = 0; mix < mixes; mix++, places += tiers - 1, shares += tiers) {
    if (is_summed(tiering)) {
      look_up(tiering, places, shares);
    } else {
      for (uint32_t tier = 0; tier < tiers; tier++)
        shares[tier] = (struct tk_tier_share){0};
      place_all(tiering, places, NULL, shares);
    }
  }
}

void tk_tiering_place(const struct tiering *tiering, const uint32_t *places, uint8_t *tier_of) {
  place_all(tiering, places, tier_of, NULL);
}

void tk_tiering_free(struct tiering *tiering) {
  if (tiering == NULL)
    return;
  for (uint32_t series = 0; tiering->series != NULL && series < tiering->series_count; series++) {
    free(tiering->series[series].extents);
    free(tiering->series[series].reads);
    free(tiering->series[series].writes);
  }
  free(tiering->series);
  free(tiering->ranks);
  free(tiering);
}
