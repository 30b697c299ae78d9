#include "replay/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "replay/conveyor.h"
#include "replay/diag.h"
#include "replay/stop.h"
#include "replay/transfer.h"

#define MAGIC "TKDONE\r\n"
#define VERSION 1U
#define BLOCKS 16U
#define BLOCK_RECORDS 4096U
#define PAUSE_NS 1000000L
#define FILE_MODE 0644

_Static_assert(sizeof(struct log_record) == 40, "a record has 40 bytes");

/* The first 64 bytes of the file. */
struct header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t record_bytes;
  uint32_t is_complete; /* 0 while the run is under way */
  uint64_t record_count;
  uint8_t reserved[32];
};
_Static_assert(sizeof(struct header) == 64, "the header has 64 bytes");

struct block {
  uint32_t count; /* records in it */
  struct log_record records[BLOCK_RECORDS];
};

struct log {
  struct conveyor conveyor;
  pthread_t thread;
  bool is_running; /* the thread */
  int fd;          /* -1: records are thrown away */
  char *path;      /* final name */
  char *beside;    /* name while it is written */
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

static int write_header(struct log *log, bool is_complete) {
  struct header header = {.magic = MAGIC,
                          .version = VERSION,
                          .header_bytes = sizeof header,
                          .record_bytes = sizeof(struct log_record),
                          .is_complete = is_complete ? 1 : 0,
                          .record_count = log->written};
  return transfer_write(log->fd, &header, sizeof header, 0, 0);
}

static void write_block(struct log *log, const struct block *block) {
  if (log->fd < 0 || log_error(log) != 0)
    return;
  uint64_t offset = sizeof(struct header) + log->written * sizeof *block->records;
  int rc =
      transfer_write(log->fd, block->records, block->count * sizeof *block->records, offset, 0);
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

static int open_file(struct log *log, const char *path) {
  size_t size = strlen(path) + 32;
  struct stat status;
  if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
    return -EINVAL; /* renaming a file over it would destroy it */
  log->path = strdup(path);
  log->beside = malloc(size);
  if (log->path == NULL || log->beside == NULL)
    return -ENOMEM;
  (void)snprintf(log->beside, size, "%s.%ld.part", path, (long)getpid()); /* always fits */
  log->fd = open(log->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
  if (log->fd < 0)
    return -errno;
  return write_header(log, false);
}

int log_open(struct log **out, const char *path) {
  struct log *log = aligned_alloc(_Alignof(struct log), sizeof *log);
  if (log == NULL)
    return -ENOMEM;
  memset(log, 0, sizeof *log); /* also touches every page before the run */
  log->fd = -1;
  log->conveyor.mask = BLOCKS - 1;
  log->filling = &log->blocks[0];
  int rc = path == NULL ? 0 : open_file(log, path);
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
  if (log->fd < 0)
    return 0;
  int rc = log_error(log);
  /* A file that misses records is kept as well: its header does not call it complete. */
  if (write_header(log, rc == 0) != 0 && rc == 0)
    rc = -EIO;
  if (rc == 0 && (fsync(log->fd) != 0 || rename(log->beside, log->path) != 0))
    rc = -errno;
  if (rc != 0)
    diag("cannot write all completions to %s: %s; what was written is in %s", log->path,
         strerror(-rc), log->beside);
  (void)close(log->fd); /* synchronized above */
  log->fd = -1;
  return rc;
}

void log_close(struct log *log) {
  if (log == NULL)
    return;
  stop_writing(log);
  if (log->fd >= 0) {
    (void)close(log->fd);
    (void)unlink(log->beside); /* an unfinished file of ours */
  }
  free(log->path);
  free(log->beside);
  free(log);
}
