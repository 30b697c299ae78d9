/* What one thread measured, in constant memory; the threads' tallies are merged after the run. */
#ifndef TRACEKIT_FILES_TALLY_H
#define TRACEKIT_FILES_TALLY_H

#include "files/plan.h"
#include "replay/histogram.h"

#define TALLY_ERRORS 160U
#define TALLY_STEPS 255U

/* Operations of one kind, or of one step. */
struct tally_class {
  uint64_t done;     /* ended as the plan expects, an expected error included */
  uint64_t expected; /* of these, with the expected error */
  uint64_t failed;
  uint64_t bytes;           /* moved */
  uint64_t short_count;     /* reads and writes that moved less than asked */
  struct histogram latency; /* of those done */
};

struct tally {
  uint64_t count;      /* timed operations */
  uint64_t failed;     /* of these */
  uint64_t untimed;    /* operations */
  uint64_t untimed_ns; /* that they took */
  uint64_t bytes;
  uint64_t step_count; /* steps that have ended */
  uint64_t step_ns;    /* of the step under way */
  uint64_t step_bytes;
  bool step_failed;
  struct histogram issue_error;                    /* started minus due; empty without times */
  struct tally_class *operations[PLAN_OPERATIONS]; /* NULL: the plan has none of this kind */
  struct tally_class *steps[TALLY_STEPS];
  uint64_t errors[PLAN_OPERATIONS][TALLY_ERRORS]; /* failed operations by errno; others in 0 */
};

/* What became of one operation. */
struct tally_entry {
  const struct plan_record *record; /* borrowed */
  int64_t result;                   /* 0 or more, or -errno */
  uint64_t latency_ns;
};

/* Makes an empty tally for the records of `thread`, NULL: for the whole plan. NULL when there is no
 * memory. Free with tally_free. */
struct tally *tally_new(const struct plan *plan, const struct plan_thread *thread);

/* Returns whether the operation ended as the plan says. */
bool tally_is_expected(const struct tally_entry *entry);

/* Adds an operation that counts. */
void tally_add(struct tally *tally, const struct tally_entry *entry);

/* Adds one that does not. */
void tally_add_untimed(struct tally *tally, uint64_t latency_ns);

/* Adds all of `other` to a tally of the whole plan. */
void tally_merge(struct tally *tally, const struct tally *other);

/* NULL is fine. */
void tally_free(struct tally *tally);

#endif
