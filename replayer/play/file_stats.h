/* What one thread measured, in constant memory; the threads' tallies are merged after the run. */
#ifndef TRACEKIT_PLAY_FILE_STATS_H
#define TRACEKIT_PLAY_FILE_STATS_H

#include "play/file_plan.h"
#include "play/histogram.h"

#define FILE_STATS_ERRORS 160U
#define FILE_STATS_STEPS 255U

/* Operations of one kind, or of one step. */
struct file_stats_class {
  uint64_t done;     /* ended as the plan expects, an expected error included */
  uint64_t expected; /* of these, with the expected error */
  uint64_t failed;
  uint64_t bytes;           /* moved */
  uint64_t short_count;     /* reads and writes that moved less than asked */
  struct histogram latency; /* of those done */
};

struct file_stats {
  uint64_t count;      /* timed operations */
  uint64_t failed;     /* of these */
  uint64_t untimed;    /* operations */
  uint64_t untimed_ns; /* that they took */
  uint64_t bytes;
  uint64_t step_count; /* steps that have ended */
  uint64_t step_ns;    /* of the step under way */
  uint64_t step_bytes;
  bool step_failed;
  struct histogram issue_error;                         /* started minus due; empty without times */
  struct file_stats_class *operations[FILE_OPERATIONS]; /* NULL: the plan has none of this kind */
  struct file_stats_class *steps[FILE_STATS_STEPS];
  uint64_t errors[FILE_OPERATIONS][FILE_STATS_ERRORS]; /* failed operations by errno; others in 0 */
};

/* What became of one operation. */
struct file_outcome {
  const struct file_record *record; /* borrowed */
  int64_t result;                   /* 0 or more, or -errno */
  uint64_t latency_ns;
};

/* Makes an empty stats for the records of `thread`, NULL: for the whole plan. NULL when there is no
 * memory. Free with file_stats_free. */
struct file_stats *file_stats_new(const struct file_plan *plan, const struct file_thread *thread);

/* Returns what file_stats_new takes for a thread, in bytes. */
uint64_t file_stats_bytes(const struct file_plan *plan, const struct file_thread *thread);

/* Returns whether the operation ended as the plan says. */
bool file_stats_is_expected(const struct file_outcome *entry);

/* Adds an operation that counts. */
void file_stats_add(struct file_stats *stats, const struct file_outcome *entry);

/* Adds one that does not. */
void file_stats_add_untimed(struct file_stats *stats, uint64_t latency_ns);

/* Adds all of `other` to a stats of the whole plan. */
void file_stats_merge(struct file_stats *stats, const struct file_stats *other);

/* NULL is fine. */
void file_stats_free(struct file_stats *stats);

/* Operations, bytes and errors over the time of a run, in bounded memory. */
#define TIMELINE_ROWS 4096U

/* Sums from the start of the measured time to `end_ns`. */
struct timeline_row {
  uint64_t end_ns; /* from the start of the measured time */
  uint64_t operations;
  uint64_t bytes;
  uint64_t failed;
};

struct timeline {
  uint64_t interval_ns; /* doubled each time the rows are full */
  uint32_t count;
  struct timeline_row rows[TIMELINE_ROWS];
};

/* Adds the sums at one more interval's end. A full timeline first drops every other row. */
void timeline_add(struct timeline *timeline, const struct timeline_row *row);

#endif
