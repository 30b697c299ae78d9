#include "play/handover.h"

#include "play/clock.h"

/* Whether a request in flight touches sectors of the record, and one of the two writes. */
static bool is_met(const struct run *run, const struct block_record *record) {
  if (run->config.lane != NULL)
    return lane_find(run->config.lane, feed_lanes(record), record);
  return run->in_flight > 0 && overlap_find(run->overlap, record);
}

/* A request has ended: what waited for it may go on. */
static void end(struct run *run, uint64_t position, uint64_t complete_ns) {
  if (run->waits == NULL)
    return;
  pace_end(&run->pace, position, complete_ns);
  waits_end(run->waits, position, complete_ns);
}

static enum block_stats_cause cause_of(struct run *run, bool is_late) {
  if (!is_late) {
    run->was_full = false;
    run->was_underrun = false;
  }
  return run->was_full ? LATE_IN_FLIGHT : run->was_underrun ? LATE_UNDERRUN : LATE_OTHER;
}

/* Lists a request as in flight. Returns whether it meets one. */
static bool enter(struct run *run, const struct slot *slot, const struct block_record *record) {
  return run->config.lane != NULL
             ? lane_enter(run->config.lane, slot->lanes, slot->request.slot, record)
             : overlap_enter(run->overlap, slot->request.slot, record);
}

static void leave(struct run *run, const struct slot *slot) {
  if (run->config.lane != NULL)
    lane_remove(run->config.lane, slot->lanes, slot->request.slot);
  else
    overlap_remove(run->overlap, slot->request.slot);
}

/* Counts change only after the engine took the request: what it rejects leaves no trace. Returns
 * its slot; NULL, with *rc, when it did not. */
static inline struct slot *submit(struct run *run, const struct next *next, uint64_t now_ns,
                                  int *rc) {
  const struct block_record *record = next->record;
  struct slot *slot = &run->slots.all[run->slots.free[run->config.depth - run->in_flight - 1]];
  slot->request.offset_bytes = record->sector * SECTOR_BYTES;
  slot->request.length_bytes = (uint64_t)record->length_sectors * SECTOR_BYTES;
  slot->request.target = record->target;
  slot->request.operation = record->operation;
  slot->request.flags = record->flags;
  slot->request.request_id = record->request_id;
  slot->request.submit_ns = run->start_ns + now_ns;
  slot->position = next->position;
  slot->intended_ns = next->due_ns;
  slot->lanes = feed_lanes(record);
  bool has_met = enter(run, slot, record);
  run->is_submitting = true;
  *rc = run->config.ops->submit(run->config.engine, &slot->request);
  run->is_submitting = false;
  if (*rc != 0) {
    leave(run, slot);
    return NULL;
  }
  struct block_stats *stats = run->config.stats;
  stats->overlaps += has_met && run->config.overlaps == OVERLAP_ALLOW;
  run->in_flight++;
  if (run->in_flight > stats->in_flight_max)
    stats->in_flight_max = run->in_flight;
  return slot;
}

/* Hands over a record that is due. */
static int submit_one(struct run *run, const struct next *next, uint64_t now_ns) {
  int rc;
  struct slot *slot = submit(run, next, now_ns, &rc);
  if (slot == NULL)
    return rc;
  if (run->waits != NULL && run->config.wake_up_ns > 0) {
    slot->is_hurried = waits_hurries(run->waits, slot->position, run->config.wake_up_ns / 2);
    run->hurried += slot->is_hurried;
  }
  uint64_t lag_ns = pace_lag_ns(&run->pace, next->due_ns, now_ns);
  run->most_lag_ns = lag_ns > run->most_lag_ns ? lag_ns : run->most_lag_ns;
  block_stats_submit(run->config.stats, next->due_ns, now_ns,
                     cause_of(run, lag_ns > BLOCK_STATS_LATE_NS));
  atomic_store_explicit(&run->config.view->lag_ns, lag_ns, memory_order_relaxed);
  return 0;
}

bool handover_has_batches(const struct run *run) {
  return !run_is_timed(run) && run->config.lane == NULL && run->config.overlaps == OVERLAP_ALLOW;
}

uint32_t handover_batch(struct run *run, uint32_t most, uint64_t now_ns, int *rc) {
  const struct block_record *records = feed_peek(run->config.feed);
  uint32_t count = run->config.depth - run->in_flight;
  count = count < most ? count : most;
  if (records == NULL || count == 0)
    return 0;
  count = feed_left(run->config.feed) < count ? feed_left(run->config.feed) : count;
  struct next next = {.record = records, .position = feed_position(run->config.feed)};
  for (; next.record < records + count && feed_verdict(next.record) == FEED_RUN; next.record++) {
    if (submit(run, &next, now_ns, rc) == NULL)
      break;
    block_stats_submit(run->config.stats, 0, now_ns, LATE_OTHER);
    next.position++;
    run->handled++;
  }
  count = (uint32_t)(next.record - records);
  feed_advance(run->config.feed, count);
  return count;
}

/* The record goes to the file first: what comes after it reads its times. */
void handover_complete(struct run *run, const struct completion *completion) {
  const struct slot *slot = &run->slots.all[completion->slot];
  uint64_t complete_ns = completion->complete_ns - run->start_ns;
  slots_log(slot, completion->error, complete_ns, run->config.log, run->config.stats);
  end(run, slot->position, complete_ns - completion->late_ns);
  run->hurried -= slot->is_hurried;
  leave(run, slot);
  run->in_flight--;
  run->slots.free[run->config.depth - run->in_flight - 1] = completion->slot;
}

/* What becomes of a record that is due: COMPLETION_DONE to run it, or why it is left out. */
static enum completions_status decide(struct run *run, const struct block_record *record,
                                      uint64_t lag_ns) {
  if (feed_verdict(record) != FEED_RUN)
    return feed_status(feed_verdict(record));
  if (pace_drops(&run->pace, lag_ns))
    return COMPLETION_SKIPPED_LATE;
  if (run->config.overlaps != OVERLAP_DROP || !is_met(run, record))
    return COMPLETION_DONE;
  run->config.stats->overlaps++;
  return COMPLETION_SKIPPED_OVERLAP;
}

enum lane_order handover_order(const struct run *run, const struct block_record *record) {
  if (run->config.lane == NULL || feed_verdict(record) == FEED_PAUSE)
    return LANE_FREE;
  if (feed_verdict(record) == FEED_MARK)
    return LANE_OTHERS_TURN;
  bool is_ordered =
      feed_verdict(record) == FEED_RUN && lanes_is_ordered(record, feed_lanes(record));
  return is_ordered ? LANE_OWN_TURN : LANE_FREE;
}

/* Goes on to what stands behind a record. */
void handover_pass(struct run *run, const struct next *next) {
  run->is_held = false;
  if (run->config.lane != NULL) {
    lane_pass(run->config.lane, handover_order(run, next->record));
    run->config.lane->position = next->position + (feed_verdict(next->record) != FEED_PAUSE);
  }
  if (run->waits == NULL)
    feed_advance(run->config.feed, 1);
}

/* Hands over or leaves out a record that is due. */
int handover_dispatch(struct run *run, const struct next *next, uint64_t elapsed_ns) {
  bool is_done = feed_verdict(next->record) == FEED_DONE_BEFORE;
  uint64_t lag_ns = pace_lag_ns(&run->pace, next->due_ns, elapsed_ns);
  enum completions_status status = is_done ? COMPLETION_DONE : decide(run, next->record, lag_ns);
  if (run->waits != NULL)
    waits_remove_first(run->waits); /* what is in it stays as it is until another one is added */
  int rc = 0;
  if (is_done) {
    run->config.stats->done_before++;
    end(run, next->position, elapsed_ns);
  } else if (status == COMPLETION_DONE) {
    rc = submit_one(run, next, elapsed_ns);
  } else {
    slots_skip(next->record, status, (const uint64_t[2]){next->due_ns, elapsed_ns}, run->config.log,
               run->config.stats);
    end(run, next->position, elapsed_ns);
  }
  if (rc == 0) {
    run->handled++;
    handover_pass(run, next);
  }
  return rc;
}

/* Whether the record waits for one in flight that it overlaps. Counts it the first time. */
bool handover_is_held(struct run *run, const struct block_record *record) {
  if (run->config.overlaps != OVERLAP_ORDER)
    return false;
  bool must_wait = is_met(run, record);
  run->config.stats->overlaps += must_wait && !run->is_held;
  run->is_held = run->is_held || must_wait;
  return must_wait;
}
