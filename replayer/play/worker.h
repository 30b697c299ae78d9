/* One thread of a run: its records in order, each at its time. */
#ifndef TRACEKIT_PLAY_WORKER_H
#define TRACEKIT_PLAY_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "play/file_operation.h"
#include "play/file_stats.h"
#include "play/memory_wait.h"
#include "play/number.h"
#include "play/pace.h"
#include "play/perf_gate.h"
#include "play/results.h"

/* Why a run ended, in the order of precedence. */
enum run_end {
  RUN_END_NONE,
  RUN_END_PLAN,
  RUN_END_TIME,
  RUN_END_SIGNAL,
  RUN_END_FILES, /* a flow found none that it could open, make or delete */
  RUN_END_FULL,
  RUN_END_RESULTS
};

struct worker_settings {
  enum pace_kind pace;
  struct fraction speed; /* divides the plan's times */
  uint64_t repeats;      /* of the plan; 0: until the time is up */
  uint64_t duration_ns;  /* of the measured time; 0: no limit */
  uint64_t warm_up_ns;   /* before it */
  int progress_fd;       /* a terminal, -1: none */
  struct perf_gate gate; /* told when the measured time begins and ends */
};

struct worker;
struct flow;

/* What all threads of a run share. */
struct file_run {
  const struct file_plan *plan; /* borrowed, as are the next three */
  const struct file_context *context;
  const struct worker_settings *settings;
  struct results *results;
  struct flow *flow;      /* borrowed; NULL for a plan whose records are done one by one */
  struct worker *workers; /* one a thread of the plan */
  struct memory_wait wait;
  uint64_t spin_ns;    /* how long before a deadline a thread stops sleeping */
  uint64_t start_ns;   /* clock: first operation */
  uint64_t measure_ns; /* clock: the warm-up is over */
  uint64_t limit_ns;   /* clock: the time is up */
  _Atomic uint32_t running;
  _Atomic int end; /* enum run_end */
};

/* Whether a thread is in a call that may hang. */
enum worker_place { WORKER_OUTSIDE, WORKER_INSIDE, WORKER_ABANDONED };

struct worker {
  _Alignas(64) _Atomic uint64_t ended; /* records, of all cycles; for those who wait for them */
  _Atomic uint64_t operations;         /* this and the next two: measured so far, for the watcher */
  _Atomic uint64_t bytes;
  _Atomic uint64_t failed;
  _Alignas(64) struct file_run *run; /* borrowed */
  uint32_t number;                   /* of the plan's thread */
  uint32_t cycle;
  uint64_t last_end_ns;             /* clock */
  bool is_done;                     /* it has reached the end of the plan, as often as asked */
  _Atomic int place;                /* enum worker_place */
  const struct file_record *record; /* under way */
  _Atomic uint64_t begun_ns;        /* of it, clock */
  unsigned char *sink;              /* for what it reads */
  struct memory_moved moved;
  struct file_stats *stats;
  struct results_block *block;
  struct file_record own; /* this and the next two: of a flow; the record under way */
  uint64_t random;
  uint32_t fd_rotor;
  pthread_t thread;
};

/* Ends the run for all threads, unless it ends already. Any thread. */
void worker_end_run(struct file_run *run, enum run_end why);

/* Makes what the thread needs. Returns 0 or -ENOMEM; end it with worker_close in both cases. */
int worker_open(struct worker *worker, struct file_run *run, uint32_t number);

/* Whether the run is over, also because the time is up. */
bool worker_is_over(struct worker *worker);

/* Waits until the clock shows `due_ns`; false when the run is over before. */
bool worker_wait_until(struct worker *worker, uint64_t due_ns);

/* Performs a record now, notes what became of it and returns its result. One that moves nothing is
 * the last of its step. */
int64_t worker_perform(struct worker *worker, struct file_record *record);

/* Performs a record that was due then, by the clock, and notes what became of it and how late it
 * was; 0: it is due now. */
void worker_perform_due(struct worker *worker, const struct file_record *record, uint64_t due_ns);

/* Body of the thread: argument is a struct worker. */
void *worker_run(void *argument);

/* Leaves a thread that hangs in an operation for good, which is then noted as unknown. Returns
 * false when it does not: it ends by itself. */
bool worker_abandon(struct worker *worker);

/* Frees what the thread used, unless it was left: then the kernel may still write there. */
void worker_close(struct worker *worker);

#endif
