/* The threads of a run, started together and watched until the last one has ended. */
#ifndef TRACEKIT_PLAY_THREAD_POOL_H
#define TRACEKIT_PLAY_THREAD_POOL_H

#include "play/worker.h"

/* What a run came to. */
struct thread_pool_report {
  enum run_end end;
  uint64_t elapsed_ns; /* of the measured time, to the end of the last operation */
  uint64_t cycles;     /* that every thread has completed */
  uint64_t unknown; /* operations that were under way when the end was forced: threads hang there */
  struct file_stats *stats; /* of all threads; the caller frees it with file_stats_free */
};

/* Runs the plan and fills report and timeline, whose interval_ns is set. Returns 0 or -errno after
 * a line on stderr. */
int thread_pool_run(struct file_run *run, struct timeline *timeline,
                    struct thread_pool_report *report);

#endif
