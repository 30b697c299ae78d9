/* A flow under way: what all threads of it share, and the body of a thread. */
#ifndef TRACEKIT_PLAY_FLOW_H
#define TRACEKIT_PLAY_FLOW_H

#include "play/flow_files.h"
#include "play/worker.h"

/* Where an operation of one thread stands. Its own thread alone uses it, but for `gate`. */
struct flow_state {
  uint64_t count; /* this and the next: done and bytes moved, for limits that go by it */
  uint64_t bytes;
  uint64_t left; /* loop: turns to go */
  uint64_t last; /* limit: what was counted the last time, 0: never */
  int64_t budget;
  struct flow_gate *gate; /* wait, block: else NULL */
};

/* A descriptor of a thread. */
struct flow_fd {
  uint32_t set;    /* of the file that was opened last, FLOW_NONE: none */
  uint32_t member; /* of it */
  bool is_open;
};

struct flow {
  const struct file_plan *plan; /* borrowed */
  struct flow_files *files;     /* one a set */
  struct flow_state *states;    /* one a record */
  struct flow_fd *fds;          /* thread x fds + fd */
  struct flow_gate *gates;
  struct flow_writes **writes; /* one a thread, NULL: it has no writers */
  _Atomic uint64_t count;      /* of operations on files, all threads; the next ones as well */
  _Atomic uint64_t bytes;
  _Atomic uint64_t data_count; /* reads and writes */
  _Atomic uint64_t data_bytes;
  _Atomic uint32_t empty_record; /* the first operation that found no file, or FLOW_NONE */
  pthread_mutex_t events;
  uint64_t events_taken;
};

/* Makes the state before the run. Returns 0 or -ENOMEM; end it with flow_close either way. */
int flow_open(struct flow *flow, const struct file_plan *plan);
void flow_close(struct flow *flow);

/* Does a thread's operations again and again until the run is over or they end it. */
void flow_run(struct worker *worker);

/* Does one of those that work on no file. Returns false when its thread is to end. */
bool flow_control(struct worker *worker, uint32_t number);

/* Starts a thread's random numbers. */
void flow_seed(struct worker *worker);

/* Returns 64 random bits of a thread, or a number below `count`. */
uint64_t flow_random(struct worker *worker);
uint64_t flow_random_below(struct worker *worker, uint64_t count);

/* Returns a value for this time, from 64 random bits. */
uint64_t flow_value_of(const struct flow_plan *plan, const struct flow_value *value,
                       uint64_t random);

#endif
