/* Dynamic tiering: extents move between tiers after each window, by what the window has shown and
 * within a bandwidth (Kim et al., FAST'14, section 4.2). Nothing is known before the first window.
 *
 * At first extents fill the slowest tier in their given order, what finds no free space there the
 * next faster one, and so on. After each window but the last, Algorithm 1 over the window's traffic
 * says where each of its extents should be. They move there by descending gain, if there still is
 * one: to a free place (one move), else in exchange (two moves) for an extent that should not be
 * there, first one without traffic in the window, then the one that Algorithm 1 came to last. An
 * exchange that gains nothing in all is left out. It ends with the first for which not enough moves
 * are left.
 *
 * Ties: of equal scores Algorithm 1 takes the lower extent first, and of tiers with equal scores
 * the later one. Of equal gains the lower extent moves first; gains are of the places at the end of
 * the window and each is computed anew before its move, without a new order. Of extents without
 * traffic the lowest leaves a tier first; one that came in exchange leaves it last. */
#ifndef TRACEKIT_MODEL_MIGRATION_H
#define TRACEKIT_MODEL_MIGRATION_H

#include <stdint.h>

#include "common/export.h"
#include "model/tier_order.h"

/* The traffic of one window: items first_item[w] to first_item[w + 1] - 1 of the arrays, ascending
 * by extent and each extent at most once. The arrays must outlive the handle. */
struct tk_migration_setup {
  const struct tk_tier *tiers; /* the last is the slowest */
  const uint64_t *first_item;  /* window_count + 1 entries */
  const uint32_t *extent;
  const int64_t *reads; /* amount */
  const int64_t *writes;
  uint32_t tier_count;
  uint32_t extent_count;
  uint32_t window_count;
  uint64_t window_moves; /* extents that may move after a window */
};

/* Values of one record of results: for each tier reads, writes, extents that left it and came to it
 * by promotion (to a tier with a lower number), and those by demotion; then the promotions and
 * demotions of all tiers. */
#define MIGRATION_RECORD(tiers) (6 * (tiers) + 2)

struct migration; /* opaque */

/* Ranks the extents of each window. Returns 0, -EINVAL for impossible tiers or items out of order,
 * or -ENOMEM. */
TK_EXPORT int tk_migration_new(const struct tk_migration_setup *setup, struct migration **out);

/* Runs the trace for each mix. `places` holds tier_count capacities in extents for each, `totals`
 * gets one record a mix, and unless NULL `windows` window_count records a mix. Returns 0, -EINVAL
 * when the extents do not fit a mix, or -ENOMEM. Threads may share a handle. */
TK_EXPORT int tk_migration_run(const struct migration *migration, const uint32_t *places,
                               uint64_t mixes, int64_t *totals, int64_t *windows);

/* Frees the handle; NULL is fine. */
TK_EXPORT void tk_migration_free(struct migration *migration);

#endif
