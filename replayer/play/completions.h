/* The completions file: records go out through a thread of their own. INTERFACE.md gives the file
 * byte by byte. */
#ifndef TRACEKIT_PLAY_COMPLETIONS_H
#define TRACEKIT_PLAY_COMPLETIONS_H

#include <stdint.h>

enum completions_status {
  COMPLETION_DONE,
  COMPLETION_FAILED,
  COMPLETION_SKIPPED_READ_ONLY,
  COMPLETION_SKIPPED_RANGE,
  COMPLETION_SKIPPED_UNSUPPORTED,
  COMPLETION_SKIPPED_LATE,
  COMPLETION_SKIPPED_OVERLAP,
  COMPLETION_UNKNOWN /* in flight when the end was forced: it may have happened or not */
};
#define COMPLETION_STATUSES 8U

/* One request's fate, as in the file. Times are ns from the start of the run. */
struct completions_record {
  uint64_t request_id;
  uint64_t intended_ns; /* when the plan wanted it, at the run's speed */
  uint64_t submit_ns;   /* when it was handed to the engine */
  uint64_t complete_ns; /* when its completion was seen */
  int32_t error;        /* 0 or -errno; -EINPROGRESS: unknown */
  uint16_t target;      /* index in the plan */
  uint8_t status;       /* enum completions_status */
  uint8_t operation;    /* enum block_operation */
};

struct completions;
struct completions_lane; /* what one submitting thread fills */

/* Opens the file that will be `path`, for `lanes` submitting threads; NULL: records are thrown
 * away. It is written beside and renamed by completions_finish. Returns 0 or -errno after a line on
 * stderr. */
int completions_open(struct completions **out, const char *path, uint32_t lanes);

/* Returns what the submitting thread of this number fills. */
struct completions_lane *completions_lane(struct completions *log, uint32_t number);

/* Returns the place for the next record. Waits only when the disk is behind by all buffers.
 * Submitting thread only. */
struct completions_record *completions_next(struct completions_lane *lane);

/* Hands over what has gathered, however little, so that a killed run leaves nearly all of it in the
 * file. Does not wait: when the disk is behind it does nothing. Submitting thread only. */
void completions_hand_over(struct completions_lane *lane);

/* Returns the first error of the writing thread, 0 or -errno. Any thread. */
int completions_error(const struct completions *log);
int completions_lane_error(const struct completions_lane *lane);

/* Writes what is left, completes the header and gives the file its name. *stalls is set to how many
 * times completions_next had to wait. Returns 0 or -errno after a line on stderr. */
int completions_finish(struct completions *log, uint64_t *stalls);

/* Frees the log, and removes an unfinished file; NULL is fine. */
void completions_close(struct completions *log);

/* Returns "done", "failed", "skipped_read_only" and so on. */
const char *completions_status_name(enum completions_status status);

#endif
