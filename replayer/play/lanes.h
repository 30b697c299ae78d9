/* Several submitting threads of one run: which of them submits a request, what must not overtake
 * what, and requests in flight on the same sectors. */
#ifndef TRACEKIT_PLAY_LANES_H
#define TRACEKIT_PLAY_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "play/block_plan.h"

#define LANES_MAX 16U

struct lanes;

/* One submitting thread. It alone uses this, with the functions that take it. */
struct lane {
  struct lanes *all;   /* borrowed */
  uint32_t number;     /* 0 to their count - 1 */
  uint64_t turns;      /* ordered requests that it has submitted or seen submitted */
  bool has_reached;    /* all before the next one is submitted, or started when it looks again */
  bool has_turned;     /* it has submitted one, which the others do not know yet */
  uint64_t position;   /* in the run: what it owns of all before is handled */
  uint64_t first_slot; /* its requests in flight have numbers of their own among all */
};

/* Whether a request is another one's turn, its own, or no matter of order. */
enum lane_order { LANE_FREE, LANE_OWN_TURN, LANE_OTHERS_TURN };

/* Returns the bits of those of `count` lanes whose sectors the request touches, at least one: each
 * stripe of 16 MiB of a target belongs to one. A flush is the first one's. */
uint16_t lanes_of(const struct block_record *record, uint32_t count);

/* Returns which of them submits it. */
uint32_t lanes_owner(uint16_t lanes);

/* Whether it is submitted after all that stand before it in the plan and before all that follow:
 * one that flushes, or touches sectors of several lanes. */
bool lanes_is_ordered(const struct block_record *record, uint16_t lanes);

/* Makes what `count` lanes share, with up to `depth` requests in flight each. Free with
 * lanes_close. NULL without memory. */
struct lanes *lanes_open(uint32_t count, uint32_t depth);

/* Prepares zeroes. */
void lane_open(struct lane *lane, struct lanes *all, uint32_t number, uint32_t depth);

/* Whether the lane must wait with its next record: until the others have submitted what stands
 * before it, or one of them has submitted it. Between two calls for a record the lane starts what
 * it submitted before, and reads the clock. */
bool lane_must_wait(struct lane *lane, enum lane_order order);

/* Goes past a record for which lane_must_wait returned false. */
void lane_pass(struct lane *lane, enum lane_order order);

/* Lets the others go on after a request of its own turn, which has been started. */
void lane_tell(struct lane *lane);

/* As overlap_find, overlap_enter and overlap_remove of all lanes; `touched` by lanes_of. */
bool lane_find(struct lane *lane, uint16_t touched, const struct block_record *record);
bool lane_enter(struct lane *lane, uint16_t touched, uint32_t slot,
                const struct block_record *record);
void lane_remove(struct lane *lane, uint16_t touched, uint32_t slot);

/* Ends the run of all; whether one has done so. Any thread. */
void lanes_give_up(struct lanes *lanes);
bool lanes_have_given_up(const struct lanes *lanes);

/* NULL is fine. */
void lanes_close(struct lanes *lanes);

#endif
