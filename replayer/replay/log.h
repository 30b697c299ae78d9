/* The completions file: records go out through a thread of their own. INTERFACE.md gives the file
 * byte by byte. */
#ifndef TRACEKIT_REPLAY_LOG_H
#define TRACEKIT_REPLAY_LOG_H

#include <stdint.h>

enum log_status {
  LOG_DONE,
  LOG_FAILED,
  LOG_SKIPPED_READ_ONLY,
  LOG_SKIPPED_RANGE,
  LOG_SKIPPED_UNSUPPORTED,
  LOG_SKIPPED_LATE,
  LOG_SKIPPED_OVERLAP
};
#define LOG_STATUSES 7U

/* One request's fate, as in the file. Times are ns from the start of the run. */
struct log_record {
  uint64_t request_id;
  uint64_t intended_ns; /* when the plan wanted it, at the run's speed */
  uint64_t submit_ns;   /* when it was handed to the engine */
  uint64_t complete_ns; /* when its completion was seen */
  int32_t error;        /* 0 or -errno */
  uint16_t target;      /* index in the plan */
  uint8_t status;       /* enum log_status */
  uint8_t operation;    /* enum plan_operation */
};

struct log;

/* Opens the file that will be `path`; NULL: records are thrown away. It is written beside and
 * renamed by log_finish. Returns 0 or -errno after a line on stderr. */
int log_open(struct log **out, const char *path);

/* Returns the place for the next record. Waits only when the disk is behind by all buffers.
 * Submitting thread only. */
struct log_record *log_next(struct log *log);

/* Hands over what has gathered, however little, so that a killed run leaves nearly all of it in the
 * file. Does not wait: when the disk is behind it does nothing. Submitting thread only. */
void log_hand_over(struct log *log);

/* Returns the first error of the writing thread, 0 or -errno. Any thread. */
int log_error(const struct log *log);

/* Writes what is left, completes the header and gives the file its name. *stalls is set to how many
 * times log_next had to wait. Returns 0 or -errno after a line on stderr. */
int log_finish(struct log *log, uint64_t *stalls);

/* Frees the log, and removes an unfinished file; NULL is fine. */
void log_close(struct log *log);

/* Returns "done", "failed", "skipped_read_only" and so on. */
const char *log_status_name(enum log_status status);

#endif
