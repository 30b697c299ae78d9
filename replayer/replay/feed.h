/* Reads a plan ahead of the run: a thread of its own checks and prepares the records, so that the
 * submitting thread only takes them. Memory is the same for every length of plan. */
#ifndef TRACEKIT_REPLAY_FEED_H
#define TRACEKIT_REPLAY_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/number.h"
#include "replay/plan.h"

enum out_of_range { RANGE_REFUSE, RANGE_WRAP, RANGE_SKIP };

enum feed_verdict {
  FEED_RUN,
  FEED_SKIP_READ_ONLY,   /* writes, but its target may only be read */
  FEED_SKIP_RANGE,       /* outside of its target */
  FEED_SKIP_UNSUPPORTED, /* its target cannot do this operation */
};

/* What the feed must know of a target. */
struct feed_target {
  uint64_t size_sectors; /* UINT64_MAX: without end */
  bool may_write;        /* writes, discards and write zeroes run */
  bool can_discard;
};

struct feed_rules {
  const struct feed_target *targets; /* one for each target of the plan; borrowed */
  struct fraction speed;             /* intended times are divided by it */
  enum out_of_range out_of_range;
};

struct feed_record {
  struct plan_record plan; /* intended_ns by the run's speed, sector wrapped where that was asked */
  enum feed_verdict verdict;
};

struct feed;

/* Opens a feed of `plan` (borrowed) and starts its thread; returns when the first blocks are ready.
 * The caller closes it with feed_close. Returns 0 or -errno. */
int feed_open(struct feed **out, const struct plan *plan, const struct feed_rules *rules);

/* Returns the next record, NULL when none is ready. Submitting thread only; never blocks. */
const struct feed_record *feed_peek(const struct feed *feed);

/* Goes on to the record after the one that feed_peek returned. Submitting thread only. */
void feed_advance(struct feed *feed);

/* After feed_peek returned NULL: returns 0 when more will come, 1 at the end of the plan, -errno
 * when the plan could not be read on (said on stderr). */
int feed_state(const struct feed *feed);

/* Number of requests that were wrapped. After the end of the run. */
uint64_t feed_wrapped(const struct feed *feed);

/* Stops the thread and frees the feed; NULL is fine. */
void feed_close(struct feed *feed);

#endif
