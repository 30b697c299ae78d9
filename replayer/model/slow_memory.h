/* Memory that is slower than this machine's: when a transfer to or from it would be over.
 *
 * A transfer of n lines waits for its turn, then takes latency + (n - 1) * line for its thread, and
 * never less than n * device. Turns are one after the other: each takes n * device, of reads and
 * writes together, since they share the cells. Lines are whole: a part of one costs all of it, but
 * that in which the thread's last transfer of that kind and handle ended is not moved again. */
#ifndef TRACEKIT_MODEL_SLOW_MEMORY_H
#define TRACEKIT_MODEL_SLOW_MEMORY_H

#include <stdint.h>

#include "common/export.h"

/* An offset: where the thread's last transfer of the handle ended. */
#define TK_MEMORY_AT_POSITION UINT64_MAX

struct tk_memory_way {
  uint32_t latency_ns; /* of the first line */
  uint32_t line_ps;    /* of each further one of a transfer */
  uint32_t device_ps;  /* that a line takes of the device, whoever moves it; 0: no limit */
};

struct tk_slow_memory {
  uint32_t line_bytes;
  uint32_t reserved;
  struct tk_memory_way ways[2]; /* of reads, of writes */
};

/* A thread's last transfer of a kind; zeroes: none. */
struct tk_memory_last {
  uint64_t end; /* byte after it */
  uint32_t handle;
};

struct tk_memory_transfer {
  uint64_t start_ps;
  uint64_t offset; /* bytes */
  uint64_t bytes;  /* 1 to 64 MiB */
  uint32_t handle;
  uint32_t is_write;
};

/* Returns when the transfer is over, in ps; notes it in `last`, the thread's own of that kind, and
 * in `busy_until_ps`, which threads share without a lock. Any thread. */
TK_EXPORT uint64_t tk_slow_memory_end(const struct tk_slow_memory *memory, uint64_t *busy_until_ps,
                                      struct tk_memory_last *last,
                                      const struct tk_memory_transfer *transfer);

#endif
