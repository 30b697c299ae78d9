/* Everything that the run of a plan of blocks needs. */
#ifndef TRACEKIT_PLAY_BLOCK_SESSION_H
#define TRACEKIT_PLAY_BLOCK_SESSION_H

#include "play/block_run.h"
#include "play/calibrate.h"
#include "play/clock.h"
#include "play/disk_stat.h"
#include "play/options.h"
#include "play/preflight_note.h"
#include "play/process_needs.h"
#include "play/target.h"

struct block_session {
  const struct options *options; /* borrowed */
  struct block_plan plan;
  uint32_t target_count; /* opened */
  struct target targets[BLOCK_PLAN_TARGETS_MAX];
  uint64_t beyond[BLOCK_PLAN_TARGETS_MAX];            /* requests outside of the target */
  struct preflight preflight;                         /* what will not go as the plan says */
  struct process_groups groups;                       /* their limits, for its notes */
  struct device_spec devices[BLOCK_PLAN_TARGETS_MAX]; /* of the emulated engine */
  struct disk_stat disks[BLOCK_PLAN_TARGETS_MAX];     /* what the kernel counted during the run */
  struct buffers buffers;
  struct clock_calibration calibration;
  const struct engine_ops *ops;
  struct engine_config engine_config; /* of each submitting thread's */
  struct engine *engine;              /* of the first one */
  struct submitters *submitters;      /* the others; NULL: there are none */
  struct engine_report report;
  const char *fallback;           /* why the engine is not the one asked for; NULL: it is */
  struct histogram machine_error; /* issue error without a device, right before the run */
  struct fidelity_host host;      /* what the run took */
  uint32_t punt_workers;          /* at its end */
  struct feed *feed;              /* NULL: not open */
  struct completions *log;
  struct block_stats *stats;
  struct progress_view views[LANES_MAX]; /* one a submitting thread */
  enum block_run_outcome outcome;
  struct feed_window window; /* of the plan: what runs */
  uint64_t *done;            /* numbers of its records that an earlier run completed */
  uint64_t done_count;
  struct fit_counts places; /* what was done to requests to bring them onto their targets */
  struct feed_cuts cuts;    /* of idle gaps */
  uint64_t slipped_ns;      /* how far late requests moved the schedule */
  uint64_t log_stalls;      /* times the run waited for the completions file */
};

#endif
