/* The time that calls take in a run whose files are to be in slower memory (model/slow_memory.h).
 */
#ifndef TRACEKIT_PLAY_MEMORY_WAIT_H
#define TRACEKIT_PLAY_MEMORY_WAIT_H

#include "model/slow_memory.h"
#include "play/file_plan.h"

/* What the threads of a run share. */
struct memory_wait {
  const struct tk_slow_memory *memory; /* borrowed; NULL: nothing is waited for */
  uint64_t start_ns;                   /* before the run, clock */
  uint64_t busy_until_ps;              /* from there on */
  uint64_t copy_ns[2];                 /* of 32 MiB that this machine reads, writes */
};

/* What a thread has moved last: by reads, by writes. */
struct memory_moved {
  struct tk_memory_last ways[2];
};

/* Measures how fast this machine's calls copy a file in memory, in some 50 ms; where that cannot
 * be, nothing is taken off for the copy. */
void memory_wait_open(struct memory_wait *wait, const struct tk_slow_memory *memory);

/* After a call that began at `start_ns` and returned `result`: waits until it would be over on the
 * memory. What this machine took to copy is not charged twice: the transfer begins that much before
 * the return, at the earliest with the call. */
void memory_wait(struct memory_wait *wait, struct memory_moved *moved,
                 const struct file_record *record, int64_t result, uint64_t start_ns);

#endif
