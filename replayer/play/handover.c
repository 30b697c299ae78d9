#include "play/handover.h"

#include "play/clock.h"

/* Whether a request in flight touches sectors of the record, and one of the two writes. */
static bool is_met(const struct run *run, const struct feed_record *record) {
  if (run->config.lane != NULL)
    return lane_find(run->config.lane, record->lanes, &record->plan);
  return run->in_flight > 0 && overlap_find(run->overlap, &record->plan);
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

/* Counts and lists change only after the engine took the request: what it rejects leaves no trace.
 */
static int submit(struct run *run, const struct next *next, uint64_t now_ns) {
  const struct block_record *record = &next->record->plan;
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
  slot->submit_ns = now_ns;
  run->is_submitting = true;
  int rc = run->config.ops->submit(run->config.engine, &slot->request);
  run->is_submitting = false;
  if (rc != 0)
    return rc;
  run->in_flight++;
  if (run->waits != NULL && run->config.wake_up_ns > 0) {
    slot->is_hurried = waits_hurries(run->waits, slot->position, run->config.wake_up_ns / 2);
    run->hurried += slot->is_hurried;
  }
  slot->lanes = next->record->lanes;
  if (run->config.lane != NULL)
    lane_add(run->config.lane, slot->lanes, slot->request.slot, record);
  else
    overlap_add(run->overlap, slot->request.slot, record);

  struct block_stats *stats = run->config.stats;
  uint64_t lag_ns = pace_lag_ns(&run->pace, next->due_ns, now_ns);
  block_stats_submit(stats, next->due_ns, now_ns, cause_of(run, lag_ns > BLOCK_STATS_LATE_NS));
  if (run->in_flight > stats->in_flight_max)
    stats->in_flight_max = run->in_flight;
  atomic_store_explicit(&run->config.view->lag_ns, lag_ns, memory_order_relaxed);
  return 0;
}

/* The record goes to the file first: what comes after it reads its times. */
void handover_complete(struct run *run, const struct completion *completion) {
  const struct slot *slot = &run->slots.all[completion->slot];
  uint64_t complete_ns = completion->complete_ns - run->start_ns;
  slots_log(slot, completion->error == 0 ? COMPLETION_DONE : COMPLETION_FAILED, completion->error,
            complete_ns, run->config.log, run->config.stats);
  end(run, slot->position, complete_ns - completion->late_ns);
  run->hurried -= slot->is_hurried;
  if (run->config.lane != NULL)
    lane_remove(run->config.lane, slot->lanes, completion->slot);
  else
    overlap_remove(run->overlap, completion->slot);
  run->in_flight--;
  run->slots.free[run->config.depth - run->in_flight - 1] = completion->slot;
}

/* What becomes of a record that is due: COMPLETION_DONE to run it, or why it is left out. */
static enum completions_status decide(struct run *run, const struct feed_record *record,
                                      uint64_t lag_ns) {
  if (record->verdict != FEED_RUN)
    return feed_status(record->verdict);
  if (pace_drops(&run->pace, lag_ns))
    return COMPLETION_SKIPPED_LATE;
  bool is_overlap = run->config.overlaps != OVERLAP_ORDER && is_met(run, record);
  run->config.stats->overlaps += is_overlap;
  return is_overlap && run->config.overlaps == OVERLAP_DROP ? COMPLETION_SKIPPED_OVERLAP
                                                            : COMPLETION_DONE;
}

enum lane_order handover_order(const struct run *run, const struct feed_record *record) {
  if (run->config.lane == NULL || record->verdict == FEED_PAUSE)
    return LANE_FREE;
  if (record->verdict == FEED_MARK)
    return LANE_OTHERS_TURN;
  bool is_ordered = record->verdict == FEED_RUN && lanes_is_ordered(&record->plan, record->lanes);
  return is_ordered ? LANE_OWN_TURN : LANE_FREE;
}

/* Goes on to what stands behind a record. */
void handover_pass(struct run *run, const struct feed_record *record) {
  run->is_held = false;
  if (run->config.lane != NULL) {
    lane_pass(run->config.lane, handover_order(run, record));
    run->config.lane->position = record->position + (record->verdict != FEED_PAUSE);
  }
  if (run->waits == NULL)
    feed_advance(run->config.feed);
}

/* Hands over or leaves out a record that is due. */
int handover_dispatch(struct run *run, const struct next *next, uint64_t elapsed_ns) {
  bool is_done = next->record->verdict == FEED_DONE_BEFORE;
  uint64_t lag_ns = pace_lag_ns(&run->pace, next->due_ns, elapsed_ns);
  enum completions_status status = is_done ? COMPLETION_DONE : decide(run, next->record, lag_ns);
  if (run->waits != NULL)
    waits_remove_first(run->waits); /* what is in it stays as it is until another one is added */
  int rc = 0;
  if (is_done) {
    run->config.stats->done_before++;
    end(run, next->position, elapsed_ns);
  } else if (status == COMPLETION_DONE) {
    rc = submit(run, next, elapsed_ns);
  } else {
    slots_skip(&next->record->plan, status, (const uint64_t[2]){next->due_ns, elapsed_ns},
               run->config.log, run->config.stats);
    end(run, next->position, elapsed_ns);
  }
  if (rc == 0) {
    run->handled++;
    handover_pass(run, next->record);
  }
  return rc;
}

/* Whether the record waits for one in flight that it overlaps. Counts it the first time. */
bool handover_is_held(struct run *run, const struct feed_record *record) {
  if (run->config.overlaps != OVERLAP_ORDER)
    return false;
  bool must_wait = is_met(run, record);
  run->config.stats->overlaps += must_wait && !run->is_held;
  run->is_held = run->is_held || must_wait;
  return must_wait;
}
