/* A small fast cache above a larger one, reference by reference, with any policies.
 *
 * Exclusive: a page is in one level only. What is used comes to the fast level, what leaves that is
 * demoted to the slow one. Inclusive: what is in the fast level is in the slow one, too; the slow
 * level sees only what the fast one misses, and what leaves it leaves both. A level of capacity 0
 * is not there.
 *
 * Writes go through to every level that has the page and behind both; or back: to the fastest level
 * that has the page, a demoted page stays dirty, an inclusive slow level is updated when the
 * page leaves the fast one, and what is behind both when the page leaves the last; or around:
 * behind both, and copies leave. A page that comes with a write is written on each level to which
 * it comes. */
#ifndef TRACEKIT_MODEL_TWO_LEVEL_H
#define TRACEKIT_MODEL_TWO_LEVEL_H

#include <stdint.h>

#include "common/export.h"
#include "model/cache.h"
#include "model/page_runs.h"

#define LEVELS 2 /* fast, slow */

struct two_level_setup {
  uint32_t page_count;
  uint32_t capacity[LEVELS]; /* pages */
  uint32_t policy[LEVELS];   /* enum cache_policy_name but the optimum */
  uint32_t is_inclusive;
  uint32_t writes_allocate; /* 0: a missed write goes by, a hit one is written where the page is */
  uint32_t writes;          /* enum cache_writes */
};

/* References and pages. */
struct two_level_counts {
  uint64_t references[2];   /* reads, writes */
  uint64_t hits[LEVELS][2]; /* of the references, those that found the page on this level */
  uint64_t fills[LEVELS];   /* pages written to a level because they came in or were demoted */
  uint64_t updates[LEVELS]; /* pages written to a level that had them, by a write or from above */
  uint64_t base_writes;     /* pages written behind both */
  uint64_t dirty;           /* pages on a level that are newer than behind both */
};

struct two_level;

/* Makes both levels. Returns 0, -EINVAL for a policy or way of writing that there is not, or
 * -ENOMEM. */
TK_EXPORT int tk_two_level_new(const struct two_level_setup *setup, struct two_level **out);

/* Goes through runs. Returns 0, or -EINVAL for a page that cannot be. */
TK_EXPORT int tk_two_level_add(struct two_level *cache, const struct page_run *runs,
                               uint64_t count);

/* Writes what happened so far. */
TK_EXPORT void tk_two_level_read(const struct two_level *cache, struct two_level_counts *counts);

/* Frees the caches; NULL is fine. */
TK_EXPORT void tk_two_level_free(struct two_level *cache);

#endif
