/* Time of given placements where it depends on the order of requests on a device (a disk's head, a
 * queue), so that a request's cost does not depend on its own blocks only.
 *
 * A placement puts a block on NVM if its point in the placement's order is below the limit of the
 * request's role. Devices serve first come, first served; each traced device is one of its own, the
 * NVM is one for all. Requests come one after the other, or at their traced times. */
#ifndef TRACEKIT_MODEL_EVENT_SIMULATION_H
#define TRACEKIT_MODEL_EVENT_SIMULATION_H

#include <stdint.h>

#include "common/export.h"
#include "model/flush_cost.h"
#include "model/placement.h"
#include "model/spindle.h"
#include "model/wide.h"

/* One placement. In the orders of roles it holds a role's own blocks only, as the curves do. */
struct tk_scenario {
  uint16_t order;           /* TK_ORDER_* */
  uint16_t limit[TK_ROLES]; /* by role of the request; 0: nothing on NVM */
};

/* Other devices on which the same placements are simulated at the same time. */
struct tk_simulation_prices {
  struct tk_placement_cost base;
  struct tk_placement_cost nvm;
  struct tk_spindle disk;          /* of the base device; half_turn_ps 0: none */
  int64_t flush_ps[2][TK_FLUSHES]; /* of base and NVM */
};

struct tk_simulation_setup {
  struct tk_placement_setup placement;
  struct tk_spindle disk;              /* of the base device; half_turn_ps 0: none */
  int64_t flush_ps[2][TK_FLUSHES];     /* of base and NVM */
  const struct tk_scenario *scenarios; /* ascending by order; must outlive the simulation */
  uint32_t scenario_count;             /* at least 1: the first has nothing on NVM */
  uint32_t is_open;                    /* 1: requests come at their traced times */
  uint32_t servers[2]; /* requests that base and NVM serve at once, 1 to 256, when open */
  const struct tk_simulation_prices *others; /* read by tk_simulation_new only */
  uint64_t other_count;
};

/* Results of one placement. */
struct tk_simulated {
  int64_t service_ps;       /* sum of the service times, flushes included */
  int64_t makespan_ps;      /* open: from the first arrival to the last completion */
  struct tk_wide answer_ps; /* open: sum of the response times, from arrival to completion; data
                               are complete after the flush before them */
};

struct tk_simulation_totals {
  struct tk_placement_totals placement;
  struct tk_wide role_answer_ps[TK_ROLES]; /* open: of the first placement, by role */
  int64_t role_service_ps[TK_ROLES];       /* of the first placement, flushes included */
  int64_t responses;                       /* transfers, with their preflush, and flushes alone */
  int64_t undated;                         /* open: without a time, or before the one before */
  int64_t beyond;                          /* on a disk: transfers beyond its capacity */
  int64_t span_ps;                         /* open: from the first arrival to the last */
};

struct tk_simulation;

/* Makes a simulation. Returns 0, -EINVAL when the setup contradicts itself, or -ENOMEM. */
TK_EXPORT int tk_simulation_new(const struct tk_simulation_setup *setup,
                                struct tk_simulation **simulation);

/* Makes a simulation of other placements with the same setup but no other devices, which may go
 * through the requests at the same time on another thread; it uses the blocks of `first`, which
 * must outlive it. Returns as tk_simulation_new. */
TK_EXPORT int tk_simulation_twin(const struct tk_simulation *first,
                                 const struct tk_scenario *scenarios, uint32_t count,
                                 struct tk_simulation **simulation);

/* Adds the next requests; returns as tk_placement_add. After a failure only the totals may be read.
 * One thread at a time. */
TK_EXPORT int tk_simulation_add(struct tk_simulation *simulation,
                                const struct tk_placement_rows *rows);

/* Charges what is still queued: call once, after the last rows. Returns as tk_simulation_add. */
TK_EXPORT int tk_simulation_finish(struct tk_simulation *simulation);

/* Copies the totals, and unless `results` is NULL the results, one a scenario; then those on each
 * of the other devices. */
TK_EXPORT void tk_simulation_read(const struct tk_simulation *simulation,
                                  struct tk_simulation_totals *totals,
                                  struct tk_simulated *results);

/* Frees the simulation; NULL is fine. */
TK_EXPORT void tk_simulation_free(struct tk_simulation *simulation);

#endif
