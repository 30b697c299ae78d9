/* Reads a plan ahead of the run: a thread of its own checks and prepares the records, so that the
 * submitting thread only takes them. Memory is the same for every length of plan. */
#ifndef TRACEKIT_PLAY_FEED_H
#define TRACEKIT_PLAY_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "play/block_plan.h"
#include "play/completions.h"
#include "play/fit.h"
#include "play/lanes.h"
#include "play/number.h"

enum feed_verdict {
  FEED_RUN,
  FEED_SKIP_READ_ONLY,   /* writes, but its target may only be read */
  FEED_SKIP_RANGE,       /* outside of its target */
  FEED_SKIP_UNSUPPORTED, /* its target cannot do this operation */
  FEED_DONE_BEFORE,      /* an earlier run of the plan completed it */
  FEED_MARK,             /* another submitter's, which has its turn here */
  FEED_PAUSE,            /* no request: until its time there is none */
};

/* Returns what becomes of a record that is left out; COMPLETION_DONE of one that is not. */
enum completions_status feed_status(enum feed_verdict verdict);

/* What the feed must know of a target. */
struct feed_target {
  struct fit_target place;
  bool may_write; /* writes, discards and write zeroes run */
  bool can_discard;
  bool has_zones; /* that operations on zones and appends can have a meaning on */
};

/* The part of a plan that runs: records [first, end), times counted from `from_ns`. */
struct feed_window {
  uint64_t first;
  uint64_t end;
  uint64_t from_ns;
};

struct feed_rules {
  const struct feed_target *targets; /* one for each target of the plan; borrowed */
  struct fraction speed;             /* intended times are divided by it */
  enum fit_policy out_of_range;
  uint32_t lanes; /* submitting threads; 0 is 1 */
  struct feed_window window;
  const uint64_t *done; /* numbers of records that an earlier run completed, ascending; borrowed */
  uint64_t done_count;
  uint64_t max_idle_ns; /* longer gaps between requests are cut to it, in the plan's time */
};

/* A record that the feed has prepared has times by the run's speed and from its start, lands where
 * it fits on its target, and its note is this: its verdict, its number in its block of the plan,
 * and the bits of the submitters whose sectors it touches, 0: there is one. */
#define FEED_PLACE_SHIFT 3U
#define FEED_PLACE_MASK 8191U
#define FEED_LANES_SHIFT 16U
_Static_assert(FEED_PAUSE < 1U << FEED_PLACE_SHIFT, "a verdict has three bits");
_Static_assert(BLOCK_PLAN_STRIDE <= FEED_PLACE_MASK, "a pause stands behind its block");

static inline enum feed_verdict feed_verdict(const struct block_record *record) {
  return (enum feed_verdict)(record->note & ((1U << FEED_PLACE_SHIFT) - 1));
}

static inline uint16_t feed_lanes(const struct block_record *record) {
  return (uint16_t)(record->note >> FEED_LANES_SHIFT);
}

struct feed;
struct feed_lane; /* what one submitting thread takes */

/* Opens a feed of `plan` (borrowed) and starts its thread; returns when the first blocks are ready.
 * The caller closes it with feed_close. Returns 0 or -errno. */
int feed_open(struct feed **out, const struct block_plan *plan, const struct feed_rules *rules);

/* Returns what the submitting thread of this number takes. */
struct feed_lane *feed_lane(struct feed *feed, uint32_t number);

/* Returns the next record, NULL when none is ready. Submitting thread only; never blocks. */
const struct block_record *feed_peek(struct feed_lane *lane);

/* Returns the position in the run of the record that feed_peek returned. Submitting thread only. */
uint64_t feed_position(const struct feed_lane *lane);

/* Returns how many records lie there one behind the other, from that one on. */
uint32_t feed_left(const struct feed_lane *lane);

/* Goes past `count` of these. Submitting thread only. */
void feed_advance(struct feed_lane *lane, uint32_t count);

/* After feed_peek returned NULL: returns 0 when more will come, 1 at the end of the plan, -errno
 * when the plan could not be read on (after a line on stderr). */
int feed_state(struct feed_lane *lane);

/* What was done to requests to bring them onto their targets. After feed_stop. */
struct fit_counts feed_places(const struct feed *feed);

/* Ends the reading thread; what was counted is then final. */
void feed_stop(struct feed *feed);

/* Number of gaps that were cut, and by how much in all. After feed_stop. */
struct feed_cuts {
  uint64_t gaps;
  uint64_t cut_ns; /* in the plan's time */
};
struct feed_cuts feed_cuts(const struct feed *feed);

/* Frees the feed, stopped if need be; NULL is fine. */
void feed_close(struct feed *feed);

#endif
