/* Which blocks to place on NVM so that a trace takes the least time, and how little it could take.
 *
 * Blocks that are always touched together are one group. Each request saves what its setup costs
 * on the base device once all its groups are on NVM, costs NVM's setup from the first one on, and
 * saves the transfer of each. Where a device serves what continues at its head sooner, a request
 * also depends on the ones before it on that device.
 *
 * Bound: what a request saves is divided between its groups such that no set of groups gets less
 * than it saves together. Then the largest weights that fit a capacity are more than any placement
 * saves there. Rounds of dividing each saving anew, always to the groups that have least a block,
 * make the weights even, as the iterations of Frank and Wolfe do for the densest subgraph
 * (Danisch, Chan and Sozio, WWW 2017), and the bound small. Choice: groups by falling weight a
 * block, or by any other order, and from there exchanges as long as the exact time falls. */
#ifndef TRACEKIT_MODEL_BEST_PLACEMENT_H
#define TRACEKIT_MODEL_BEST_PLACEMENT_H

#include <stdint.h>

#include "common/export.h"
#include "model/flush_cost.h"
#include "model/placement.h"
#include "model/spindle.h"

struct tk_best_prices {
  struct tk_placement_cost base;
  struct tk_placement_cost nvm;
  struct tk_spindle disk;          /* of the base device; half_turn_ps 0: none */
  int64_t flush_ps[2][TK_FLUSHES]; /* of base and NVM */
};

struct tk_best_setup {
  const int64_t *keys;  /* of the blocks, strictly ascending; must outlive the kernel */
  const uint8_t *roles; /* by block: TK_ROLE_* or another index below TK_ROLES; must outlive it */
  const struct tk_placement_device *devices;
  uint32_t block_count;
  uint32_t device_count;
  uint32_t as_issued; /* 0: each request as queued; 1: as issued */
  struct tk_best_prices prices;
};

struct tk_best_size {
  uint64_t requests;
  uint64_t pairs; /* of a request and a group: the work of one round */
  uint32_t groups;
};

struct tk_best_result {
  int64_t elapsed_ps; /* of the placement, exact */
  int64_t blocks;     /* that it has */
};

struct tk_best;

/* Makes a kernel. Returns 0, -EINVAL when the setup contradicts itself, or -ENOMEM. */
TK_EXPORT int tk_best_new(const struct tk_best_setup *setup, struct tk_best **best);

/* Adds the next requests; returns as tk_placement_add. */
TK_EXPORT int tk_best_add(struct tk_best *best, const struct tk_placement_rows *rows);

/* Ends the trace and makes the groups; where `cuts` is not NULL, also at blocks with a 1 there.
 * Returns 0 or a negative errno. The functions below need it. */
TK_EXPORT int tk_best_finish(struct tk_best *best, const uint8_t *cuts);

/* Copies the totals of what was read; fine at any time. */
TK_EXPORT void tk_best_read(const struct tk_best *best, struct tk_placement_totals *totals);

/* Writes how large the trace is. */
TK_EXPORT void tk_best_measure(const struct tk_best *best, struct tk_best_size *size);

/* Takes other prices, and forgets the weights. Returns 0, or -EINVAL for invalid ones. */
TK_EXPORT int tk_best_reprice(struct tk_best *best, const struct tk_best_prices *prices);

/* Copies the first block of each group. */
TK_EXPORT void tk_best_groups(const struct tk_best *best, uint32_t *first_blocks);

/* Divides savings for so many rounds, going on from the weights that there are. */
TK_EXPORT void tk_best_weigh(struct tk_best *best, uint32_t rounds);

/* Writes the time in ps that no placement of so many blocks falls below, for `count` capacities. */
TK_EXPORT void tk_best_bound(struct tk_best *best, const int64_t *blocks, uint64_t count,
                             int64_t *bound_ps);

/* Divides savings for one capacity, so many rounds, by best_path.h, going on from the last call's
 * division; the bound of this capacity that it makes as large as it can does not exceed
 * `target_ps`, the time of a placement that fits. Writes it and returns 0, or returns -ENOMEM. Its
 * weights are the groups' values until tk_best_weigh is called. */
TK_EXPORT int tk_best_tighten(struct tk_best *best, int64_t blocks, int64_t target_ps,
                              uint32_t rounds, int64_t *bound_ps);

/* Copies the weight a block of each group. */
TK_EXPORT void tk_best_values(const struct tk_best *best, double *values);

/* Copies by role what its flushes save once it is wholly on NVM, beside the weights. */
TK_EXPORT void tk_best_flush_ps(const struct tk_best *best, double *flush_ps);

/* Places groups by falling value as long as they fit `blocks`, none below 0, and then exchanges
 * groups while that helps, for about so many steps (a step looks at one request). `on_nvm` gets a 1
 * for each block that is placed. Returns 0 or -ENOMEM. */
TK_EXPORT int tk_best_choose(struct tk_best *best, int64_t blocks, const double *values,
                             uint64_t steps, uint8_t *on_nvm, struct tk_best_result *result);

/* Writes the exact time of a placement of whole groups, of which the first block tells. */
TK_EXPORT void tk_best_time(struct tk_best *best, const uint8_t *on_nvm,
                            struct tk_best_result *result);

/* Frees the kernel; NULL is fine. */
TK_EXPORT void tk_best_free(struct tk_best *best);

#endif
