/* One use of the program: everything that a run needs, opened in order and closed in reverse. */
#ifndef TRACEKIT_REPLAY_SESSION_H
#define TRACEKIT_REPLAY_SESSION_H

#include "replay/calibrate.h"
#include "replay/clock.h"
#include "replay/disk_stat.h"
#include "replay/options.h"
#include "replay/run.h"
#include "replay/target.h"

struct session {
  const struct options *options; /* borrowed */
  struct plan plan;
  uint32_t target_count; /* opened */
  struct target targets[PLAN_TARGETS_MAX];
  uint64_t beyond[PLAN_TARGETS_MAX];            /* requests outside of the target */
  struct device_spec devices[PLAN_TARGETS_MAX]; /* of the emulated engine */
  struct disk_stat disks[PLAN_TARGETS_MAX];     /* what the kernel counted during the run */
  struct buffers buffers;
  struct clock_calibration calibration;
  const struct engine_ops *ops;
  struct engine *engine;
  struct engine_report report;
  const char *fallback;           /* why the engine is not the one asked for; NULL: it is */
  struct histogram machine_error; /* issue error without a device, right before the run */
  struct fidelity_host host;      /* what the run took */
  uint32_t punt_workers;          /* at its end */
  struct log *log;
  struct stats *stats;
  struct progress_view view;
  enum run_outcome outcome;
  struct feed_window window;  /* of the plan: what runs */
  struct place_counts places; /* what was done to requests to bring them onto their targets */
  struct feed_cuts cuts;      /* of idle gaps */
  uint64_t slipped_ns;        /* how far late requests moved the schedule */
  uint64_t log_stalls;        /* times the run waited for the completions file */
};

/* Runs the program as the options say and writes the summary. Returns the exit code: 0 all done,
 * 1 failed or refused (said on stderr), 3 interrupted or some requests failed. */
int session_run(struct session *session, const struct options *options);

#endif
