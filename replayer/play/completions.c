#include "play/completions.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "play/diag.h"
#include "play/record_file.h"
#include "play/spsc_ring.h"
#include "play/stop.h"

#define MAGIC "TKDONE\r\n"
#define BLOCKS 16U
#define BLOCK_RECORDS 4096U
#define PAUSE_NS 1000000L

_Static_assert(sizeof(struct completions_record) == 40, "a record has 40 bytes");

struct block {
  uint32_t count; /* records in it */
  struct completions_record records[BLOCK_RECORDS];
};

struct completions_lane {
  struct spsc_ring ring;
  struct completions *log;
  uint64_t stalls; /* submitting thread */
  struct block *filling;
  struct completions_record *next; /* of it */
  struct completions_record *end;  /* of it */
  struct block blocks[BLOCKS];
};

struct completions {
  pthread_t thread;
  bool is_running; /* the thread */
  struct record_file file;
  _Atomic bool is_ending;
  _Atomic int error;
  uint64_t written; /* writing thread: records */
  uint32_t lane_count;
  struct completions_lane lanes[];
};

/* Names are those of the summary's counts and of the tables. */
const char *completions_status_name(enum completions_status status) {
  switch (status) {
  case COMPLETION_DONE:
    return "done";
  case COMPLETION_FAILED:
    return "failed";
  case COMPLETION_SKIPPED_READ_ONLY:
    return "skipped_read_only";
  case COMPLETION_SKIPPED_RANGE:
    return "skipped_out_of_range";
  case COMPLETION_SKIPPED_OVERLAP:
    return "skipped_overlap";
  case COMPLETION_SKIPPED_LATE:
    return "skipped_late";
  case COMPLETION_SKIPPED_UNSUPPORTED:
    return "skipped_unsupported";
  case COMPLETION_UNKNOWN:
    break;
  }
  return "unknown";
}

static void pause_briefly(long pause_ns) {
  struct timespec pause = {.tv_nsec = pause_ns};
  (void)nanosleep(&pause, NULL); /* woken early is as good */
}

static void write_block(struct completions *log, const struct block *block) {
  if (log->file.fd < 0 || completions_error(log) != 0)
    return;
  int rc = record_file_write(&log->file, log->written, block->records, block->count);
  if (rc == 0)
    log->written += block->count;
  else
    atomic_store_explicit(&log->error, rc, memory_order_relaxed);
}

/* Writes a block of each lane that has one. Returns whether there was one. */
static bool write_next(struct completions *log) {
  bool has_some = false;
  for (uint32_t i = 0; i < log->lane_count; i++) {
    uint64_t at;
    struct completions_lane *lane = &log->lanes[i];
    if (!spsc_ring_can_empty(&lane->ring, &at))
      continue;
    has_some = true;
    write_block(log, &lane->blocks[at]);
    spsc_ring_empty(&lane->ring);
  }
  return has_some;
}

static void *write_blocks(void *argument) {
  struct completions *log = argument;
  for (;;) {
    /* Order matters: what was handed over before the end was called is still written. */
    bool is_ending = atomic_load_explicit(&log->is_ending, memory_order_acquire);
    if (write_next(log))
      continue;
    if (is_ending)
      return NULL;
    pause_briefly(PAUSE_NS);
  }
}

/* Begins to fill a block. */
static void take(struct completions_lane *lane, uint64_t at) {
  lane->filling = &lane->blocks[at];
  lane->next = lane->filling->records;
  lane->end = lane->filling->records + BLOCK_RECORDS;
}

static bool has_some(const struct completions_lane *lane) {
  return lane->next > lane->filling->records;
}

static void hand_over(struct completions_lane *lane) {
  lane->filling->count = (uint32_t)(lane->next - lane->filling->records);
  spsc_ring_fill(&lane->ring);
}

int completions_open(struct completions **out, const char *path, uint32_t lanes) {
  /* The thread and the file are there before the run, which then only fills memory. */
  size_t bytes = sizeof(struct completions) + lanes * sizeof(struct completions_lane);
  struct completions *log = aligned_alloc(_Alignof(struct completions), bytes);
  if (log == NULL)
    return -ENOMEM;
  memset(log, 0, bytes); /* also touches every page before the run */
  log->lane_count = lanes;
  for (uint32_t i = 0; i < lanes; i++) {
    struct completions_lane *lane = &log->lanes[i];
    lane->ring.mask = BLOCKS - 1;
    lane->log = log;
    take(lane, 0);
  }
  int rc = record_file_open(&log->file, path, MAGIC, sizeof(struct completions_record));
  if (rc == 0)
    rc = stop_thread_create(&log->thread, write_blocks, log);
  if (rc != 0) {
    diag("cannot write completions to %s: %s", path == NULL ? "nowhere" : path, strerror(-rc));
    completions_close(log);
    return rc;
  }
  log->is_running = true;
  *out = log;
  return 0;
}

struct completions_lane *completions_lane(struct completions *log, uint32_t number) {
  return &log->lanes[number];
}

/* Hands the block over and takes the next, which may still have to be written. */
static void next_block(struct completions_lane *lane) {
  uint64_t at;
  hand_over(lane);
  if (!spsc_ring_can_fill(&lane->ring, &at))
    lane->stalls++;
  while (!spsc_ring_can_fill(&lane->ring, &at))
    pause_briefly(PAUSE_NS / 20);
  take(lane, at);
}

struct completions_record *completions_next(struct completions_lane *lane) {
  if (lane->next == lane->end)
    next_block(lane);
  return lane->next++;
}

void completions_hand_over(struct completions_lane *lane) {
  if (has_some(lane) && spsc_ring_has_next(&lane->ring))
    next_block(lane);
}

int completions_lane_error(const struct completions_lane *lane) {
  return completions_error(lane->log);
}

int completions_error(const struct completions *log) {
  return atomic_load_explicit(&log->error, memory_order_relaxed);
}

static void stop_writing(struct completions *log) {
  if (!log->is_running)
    return;
  /* Release: the writing thread that sees the end sees the last block too. */
  atomic_store_explicit(&log->is_ending, true, memory_order_release);
  (void)pthread_join(log->thread, NULL); /* fails only for a thread that is not ours */
  log->is_running = false;
}

int completions_finish(struct completions *log, uint64_t *stalls) {
  *stalls = 0;
  for (uint32_t i = 0; i < log->lane_count; i++) {
    if (has_some(&log->lanes[i]))
      hand_over(&log->lanes[i]);
    *stalls += log->lanes[i].stalls;
  }
  stop_writing(log);
  return record_file_finish(&log->file, log->written, completions_error(log), "completions");
}

void completions_close(struct completions *log) {
  if (log == NULL)
    return;
  stop_writing(log);
  record_file_close(&log->file);
  free(log);
}
