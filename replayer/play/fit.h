/* Where a request lands on its target: addresses beyond its end, and sectors larger than the
 * trace's. */
#ifndef TRACEKIT_PLAY_FIT_H
#define TRACEKIT_PLAY_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/export.h"
#include "play/block_plan.h"

/* What to do with a request that passes the end of its target. */
enum fit_policy {
  FIT_REFUSE, /* nothing runs when there is one */
  FIT_WRAP,   /* its address modulo the target's size */
  FIT_SKIP,
  FIT_FOLD,  /* its address reflected at the ends, so that neighbours stay neighbours */
  FIT_SCALE, /* all addresses of the target shrink by one factor, so that their order stays */
  FIT_CLIP,  /* cut at the end; skipped when nothing is left */
};
#define FIT_POLICIES 6U
extern const char *const fit_words[]; /* in the order of the enum, ended by NULL */

struct fit_target {
  uint64_t size_sectors;   /* UINT64_MAX: without end */
  uint64_t needed_sectors; /* of the plan */
  uint32_t grain_sectors;  /* what all addresses of the plan are multiples of, at most 4 KiB */
  uint32_t expand_sectors; /* reads and writes are widened to multiples of it; 1: they are not */
};

struct fit_counts {
  uint64_t moved;    /* wrapped, folded or scaled requests */
  uint64_t clipped;  /* requests */
  uint64_t expanded; /* requests */
};

/* Moves, cuts and widens a record as the policy says, and counts that. Returns false when it cannot
 * run on the target. A flush has no place and always can. */
bool fit_record(const struct fit_target *target, enum fit_policy policy,
                struct block_record *record, struct fit_counts *counts);

/* Returns up to which sector of the target that function leaves all requests as they are, 0: it
 * does not. */
uint64_t fit_plain_sectors(const struct fit_target *target, enum fit_policy policy);

/* Does that with records of one target, for who compares them with what the device got; the word
 * of fit_words at `policy` says how. fits[i] becomes whether records[i] can run. Returns 0, or
 * -EINVAL for a policy that there is not. */
TK_EXPORT int tk_fit_records(const struct fit_target *target, uint32_t policy,
                             struct block_record *records, uint64_t count, uint8_t *fits);

#endif
