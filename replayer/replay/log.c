#include "replay/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replay/conveyor.h"
#include "replay/diag.h"
#include "replay/record_file.h"
#include "replay/stop.h"

#define MAGIC "TKDONE\r\n"
#define BLOCKS 16U
#define BLOCK_RECORDS 4096U
#define PAUSE_NS 1000000L

_Static_assert(sizeof(struct log_record) == 40, "a record has 40 bytes");

struct block {
  uint32_t count; /* records in it */
  struct log_record records[BLOCK_RECORDS];
};

struct log {
  struct conveyor conveyor;
  pthread_t thread;
  bool is_running; /* the thread */
  struct record_file file;
  _Atomic bool is_ending;
  _Atomic int error;
  uint64_t written; /* writing thread: records */
  uint64_t stalls;  /* submitting thread */
  struct block *filling;
  struct block blocks[BLOCKS];
};

const char *log_status_name(enum log_status status) {
  switch (status) {
  case LOG_DONE:
    return "done";
  case LOG_FAILED:
    return "failed";
  case LOG_SKIPPED_READ_ONLY:
    return "skipped_read_only";
  case LOG_SKIPPED_RANGE:
    return "skipped_out_of_range";
  case LOG_SKIPPED_OVERLAP:
    return "skipped_overlap";
  case LOG_SKIPPED_LATE:
    return "skipped_late";
  case LOG_SKIPPED_UNSUPPORTED:
    return "skipped_unsupported";
  }
  return "unknown";
}

static void pause_briefly(long pause_ns) {
  struct timespec pause = {.tv_nsec = pause_ns};
  (void)nanosleep(&pause, NULL); /* woken early is as good */
}

static void write_block(struct log *log, const struct block *block) {
  if (log->file.fd < 0 || log_error(log) != 0)
    return;
  int rc = record_file_write(&log->file, log->written, block->records, block->count);
  if (rc == 0)
    log->written += block->count;
  else
    atomic_store_explicit(&log->error, rc, memory_order_relaxed);
}

static void *write_blocks(void *argument) {
  struct log *log = argument;
  for (;;) {
    uint64_t at;
    /* Order matters: what was handed over before the end was called is still written. */
    bool is_ending = atomic_load_explicit(&log->is_ending, memory_order_acquire);
    if (conveyor_can_empty(&log->conveyor, &at)) {
      write_block(log, &log->blocks[at]);
      conveyor_empty(&log->conveyor);
    } else if (is_ending) {
      return NULL;
    } else {
      pause_briefly(PAUSE_NS);
    }
  }
}

int log_open(struct log **out, const char *path) {
  struct log *log = aligned_alloc(_Alignof(struct log), sizeof *log);
  if (log == NULL)
    return -ENOMEM;
  memset(log, 0, sizeof *log); /* also touches every page before the run */
  log->conveyor.mask = BLOCKS - 1;
  log->filling = &log->blocks[0];
  int rc = record_file_open(&log->file, path, MAGIC, sizeof(struct log_record));
  if (rc == 0)
    rc = stop_thread_create(&log->thread, write_blocks, log);
  if (rc != 0) {
    diag("cannot write completions to %s: %s", path == NULL ? "nowhere" : path, strerror(-rc));
    log_close(log);
    return rc;
  }
  log->is_running = true;
  *out = log;
  return 0;
}

/* Hands the block over and takes the next, which may still have to be written. */
static void next_block(struct log *log) {
  uint64_t at;
  conveyor_fill(&log->conveyor);
  if (!conveyor_can_fill(&log->conveyor, &at))
    log->stalls++;
  while (!conveyor_can_fill(&log->conveyor, &at))
    pause_briefly(PAUSE_NS / 20);
  log->filling = &log->blocks[at];
  log->filling->count = 0;
}

struct log_record *log_next(struct log *log) {
  if (log->filling->count == BLOCK_RECORDS)
    next_block(log);
  return &log->filling->records[log->filling->count++];
}

void log_hand_over(struct log *log) {
  if (log->filling->count > 0 && conveyor_has_next(&log->conveyor))
    next_block(log);
}

int log_error(const struct log *log) {
  return atomic_load_explicit(&log->error, memory_order_relaxed);
}

static void stop_writing(struct log *log) {
  if (!log->is_running)
    return;
  /* Release: the writing thread that sees the end sees the last block too. */
  atomic_store_explicit(&log->is_ending, true, memory_order_release);
  (void)pthread_join(log->thread, NULL); /* fails only for a thread that is not ours */
  log->is_running = false;
}

int log_finish(struct log *log, uint64_t *stalls) {
  if (log->filling->count > 0)
    conveyor_fill(&log->conveyor);
  stop_writing(log);
  *stalls = log->stalls;
  return record_file_finish(&log->file, log->written, log_error(log), "completions");
}

void log_close(struct log *log) {
  if (log == NULL)
    return;
  stop_writing(log);
  record_file_close(&log->file);
  free(log);
}
