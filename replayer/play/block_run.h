/* The loop that keeps a plan's times: takes records from the feed, hands them to the engine when
 * they are due, and logs what comes back. */
#ifndef TRACEKIT_PLAY_BLOCK_RUN_H
#define TRACEKIT_PLAY_BLOCK_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "play/block_stats.h"
#include "play/completions.h"
#include "play/engine.h"
#include "play/feed.h"
#include "play/lanes.h"
#include "play/overlap.h"
#include "play/pace.h"
#include "play/progress.h"

/* What another thread calls when this one hangs in a call and the end is forced: it logs as unknown
 * what is in flight. */
struct block_run_hang {
  void (*give_up)(void *run);
  void *run;
};

struct block_run_config {
  struct pace_rules pace;
  enum overlap_policy overlaps;
  uint32_t depth;               /* most requests in flight */
  uint64_t spin_lead_ns;        /* how long before a deadline to stop sleeping */
  uint32_t wake_up_ns;          /* what a wake-up takes; 0: a closed loop does not sleep */
  const struct engine_ops *ops; /* of `engine` */
  struct engine *engine;        /* borrowed, as all below */
  struct feed_lane *feed;
  struct completions_lane *log;
  struct block_stats *stats;
  struct progress_view *view;
  void (*end)(void *argument); /* saves and ends the program when a call hangs; NULL: no one does */
  void *argument;              /* of it */
  struct block_run_hang *hang; /* of another thread than the main one, filled by block_run */
  struct lane *lane;           /* of several submitters, this one's; NULL: it is the only one */
  bool follows_lead;           /* by the kernel's own events, as far as they may be seen */
  uint64_t follow_late_ns;     /* how much later than other tracers' these are */
  uint64_t start_ns;           /* clock value of the run's time 0; 0: soon */
};

enum block_run_outcome { BLOCK_RUN_FINISHED, BLOCK_RUN_INTERRUPTED, BLOCK_RUN_FAILED };

/* Runs to the end of the plan, or until a signal or an error of the engine, the log or the feed;
 * then waits for what is in flight. What is in flight still when the end is forced is logged as
 * unknown. *slipped_ns is how far the schedule moved (PACE_SLIP); *error is -errno when the outcome
 * is BLOCK_RUN_FAILED. */
enum block_run_outcome block_run(const struct block_run_config *config, uint64_t *slipped_ns,
                                 int *error);

#endif
