/* The rows of `requests` that are still being filled: a window over the trace, in queue order. */
#ifndef TRACEKIT_READ_ROWS_H
#define TRACEKIT_READ_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#define NO_TIME INT64_MIN /* a `_ns` field without a value */
#define NO_ROW UINT64_MAX
#define NO_REQUEST UINT32_MAX

/* Rows at most between the oldest open one and the newest; the fuzzer makes it small. */
#ifndef ROWS_WINDOW
#define ROWS_WINDOW 983040u
#endif

enum row_operation {
  OPERATION_READ,
  OPERATION_WRITE,
  OPERATION_FLUSH,
  OPERATION_DISCARD,
  OPERATION_WRITE_ZEROES,
  OPERATION_ZONE, /* none of those below, or several */
  OPERATION_ZONE_APPEND,
  OPERATION_ZONE_RESET,
  OPERATION_ZONE_RESET_ALL,
  OPERATION_ZONE_OPEN,
  OPERATION_ZONE_CLOSE,
  OPERATION_ZONE_FINISH,
  OPERATION_OTHER,
};

enum row_flag { ROW_SYNC = 1, ROW_META = 2, ROW_FUA = 4, ROW_PREFLUSH = 8, ROW_READAHEAD = 16 };

/* Columns as in tracekit/schema.py; times are nanoseconds since the trace start. */
struct row {
  int64_t queue_ns, getrq_ns, insert_ns, merge_ns, issue_ns, transfer_ns, complete_ns;
  int64_t sector; /* 512 bytes */
  int64_t length_bytes;
  int64_t merged_into; /* request_id, -1 for none */
  int32_t pid, cpu, error, requeue_count, split_count, depth;
  int32_t device;         /* index into the device names */
  int32_t process;        /* index into the process names, -1 for unknown */
  int32_t partition;      /* index into the partition names, -1 for none */
  int32_t cgroup;         /* index into the cgroup names, -1 for unknown */
  uint32_t request;       /* the newest of its requests, NO_REQUEST when none is left */
  uint32_t open_requests; /* requests not yet complete */
  uint8_t operation;      /* enum row_operation */
  uint8_t flags;          /* ROW_ bits */
  bool is_done;           /* nothing more can happen to it */
};

/* Embedded by its owner; a ring indexed by request_id. */
struct rows {
  struct row *ring;
  uint64_t capacity; /* a power of two */
  uint64_t head;     /* request_id of the oldest row held */
  uint64_t ready;    /* rows before this one are done and may leave */
  uint64_t tail;     /* request_id of the next row */
};

/* Prepares an empty window. Returns 0 or -ENOMEM. */
int rows_open(struct rows *rows);

/* Appends a zeroed row with every time unset. Returns it, NULL without memory. Its request_id is
 * rows->tail - 1. Pointers to rows are invalid afterwards. */
struct row *rows_append(struct rows *rows);

/* Moves `ready` over the rows that are done. */
void rows_advance(struct rows *rows);

/* Says whether the window is full, that is, the row at `ready` has to go though it is not done. */
static inline bool rows_is_full(const struct rows *rows) {
  return rows->tail - rows->ready > ROWS_WINDOW;
}

/* Gives the row; it must be in [head, tail). */
static inline struct row *rows_at(const struct rows *rows, uint64_t request_id) {
  return &rows->ring[request_id & (rows->capacity - 1)];
}

void rows_close(struct rows *rows);

#endif
