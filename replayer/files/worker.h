/* One thread of a run: its records in order, each at its time. */
#ifndef TRACEKIT_FILES_WORKER_H
#define TRACEKIT_FILES_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "files/crew.h"

struct worker {
  _Alignas(64) _Atomic uint64_t ended; /* records, of all cycles; for those who wait for them */
  _Atomic uint64_t operations;         /* this and the next two: measured so far, for the watcher */
  _Atomic uint64_t bytes;
  _Atomic uint64_t failed;
  _Alignas(64) struct crew *crew; /* borrowed */
  uint32_t number;                /* of the plan's thread */
  uint32_t cycle;
  uint64_t last_end_ns; /* clock */
  unsigned char *sink;  /* for what it reads */
  struct tally *tally;
  struct results_block *block;
  pthread_t thread;
};

/* Makes what the thread needs. Returns 0 or -ENOMEM; end it with worker_close in both cases. */
int worker_open(struct worker *worker, struct crew *crew, uint32_t number);

/* Body of the thread: argument is a struct worker. */
void *worker_run(void *argument);

void worker_close(struct worker *worker);

#endif
