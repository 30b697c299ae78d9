/* Where a request lands on its target: addresses beyond its end, and sectors larger than the
 * trace's. */
#ifndef TRACEKIT_REPLAY_PLACE_H
#define TRACEKIT_REPLAY_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/plan.h"

/* What to do with a request that passes the end of its target. */
enum place_policy {
  PLACE_REFUSE, /* nothing runs when there is one */
  PLACE_WRAP,   /* its address modulo the target's size */
  PLACE_SKIP,
  PLACE_FOLD,  /* its address reflected at the ends, so that neighbours stay neighbours */
  PLACE_SCALE, /* all addresses of the target shrink by one factor, so that their order stays */
  PLACE_CLIP,  /* cut at the end; skipped when nothing is left */
};
#define PLACE_POLICIES 6U

struct place_target {
  uint64_t size_sectors;   /* UINT64_MAX: without end */
  uint64_t needed_sectors; /* of the plan */
  uint32_t grain_sectors;  /* what all addresses of the plan are multiples of, at most 4 KiB */
  uint32_t expand_sectors; /* reads and writes are widened to multiples of it; 1: they are not */
};

struct place_counts {
  uint64_t moved;    /* wrapped, folded or scaled requests */
  uint64_t clipped;  /* requests */
  uint64_t expanded; /* requests */
};

/* Moves, cuts and widens a record as the policy says, and counts that. Returns false when it cannot
 * run on the target. A flush has no place and always can. */
bool place_record(const struct place_target *target, enum place_policy policy,
                  struct plan_record *record, struct place_counts *counts);

#endif
