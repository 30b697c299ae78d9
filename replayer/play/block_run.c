#include "play/block_run.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>

#include "play/clock.h"
#include "play/slots.h"
#include "play/stop.h"
#include "play/waits.h"

#define BATCH 64U        /* requests submitted or reaped in one turn */
#define NAP_NS 50000000U /* longest wait, so that a signal is never missed for long */
#define START_DELAY_NS 1000000U
#define LOOK_AHEAD 4096U       /* records of a closed loop that wait, at most */
#define GIVE_WAY_NS 20000U     /* shortest time to a deadline in which others may run */
#define FEW 2U                 /* requests in flight for which a closed loop sleeps */
#define HAND_OVER_NS 50000000U /* most that a killed run loses of its log, about */

/* The record that is due first. */
struct next {
  const struct feed_record *record;
  uint64_t position; /* in the run */
  uint64_t due_ns;   /* from the run's start */
};

struct run {
  struct block_run_config config;
  struct pace pace;
  struct overlap *overlap; /* requests in flight */
  bool is_submitting;      /* the request of the next free slot */
  bool is_held;            /* the next request waits for one that it overlaps, and is counted */
  bool gives_way;          /* a request waits for a completion, and none is due soon */
  struct waits *waits;     /* closed loop: records that wait; else NULL */
  uint64_t taken;          /* records that have gone into it */
  uint64_t start_ns;       /* clock value of the run's time 0 */
  uint32_t in_flight;
  uint32_t hurried; /* of them */
  struct slots slots;
  bool was_full;         /* since the last request in time: the depth was reached */
  bool was_underrun;     /* since then: the feed was behind */
  uint64_t handled;      /* requests submitted or skipped */
  uint64_t unknown;      /* first position whose request was given up in flight, UINT64_MAX: none */
  uint64_t hand_over_ns; /* clock value: when the log is given what there is */
};

/* A request has ended: what waited for it may go on. */
static void end(struct run *run, uint64_t position, uint64_t complete_ns) {
  if (run->waits == NULL)
    return;
  pace_end(&run->pace, position, complete_ns);
  waits_end(run->waits, position, complete_ns);
}

static bool is_timed(const struct run *run) { return run->config.pace.kind != PACE_FAST; }

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
static void complete(struct run *run, const struct completion *completion) {
  const struct slot *slot = &run->slots.all[completion->slot];
  uint64_t complete_ns = completion->complete_ns - run->start_ns;
  slots_log(slot, completion->error == 0 ? COMPLETION_DONE : COMPLETION_FAILED, completion->error,
            complete_ns, run->config.log, run->config.stats);
  end(run, slot->position, complete_ns - completion->late_ns);
  run->hurried -= slot->is_hurried;
  overlap_remove(run->overlap, completion->slot);
  run->in_flight--;
  run->slots.free[run->config.depth - run->in_flight - 1] = completion->slot;
}

/* Lets the engine start what it has and takes what is done, waiting until `until_ns` (clock value)
 * for the first if it is not 0. Returns 0 or -errno. */
static int reap(struct run *run, uint64_t until_ns) {
  struct completion done[BATCH];
  int count = run->config.ops->reap(run->config.engine, done, BATCH, until_ns);
  for (int i = 0; i < count; i++)
    complete(run, &done[i]);
  if (count > 0)
    atomic_store_explicit(&run->config.view->failed, run->config.stats->statuses[COMPLETION_FAILED],
                          memory_order_relaxed);
  return count < 0 ? count : 0;
}

static uint64_t nap_end(uint64_t now_ns, uint64_t wanted_ns) {
  return wanted_ns < now_ns + NAP_NS ? wanted_ns : now_ns + NAP_NS;
}

/* Waits until the next request is due or something else happened: sleeps far from the deadline,
 * spins near it, takes completions all the time. */
static int wait_for(struct run *run, uint64_t due_ns, uint64_t now_ns) {
  uint64_t lead_ns = run->config.spin_lead_ns;
  if (due_ns <= now_ns + lead_ns) {
    int rc = reap(run, 0);
    /* The kernel's thread that serves the device may stand behind this one. */
    if (run->gives_way)
      (void)sched_yield(); /* always succeeds */
    return rc;
  }
  uint64_t until_ns = nap_end(now_ns, clock_wake_ns(now_ns, due_ns, lead_ns));
  if (run->in_flight > 0)
    return reap(run, until_ns);
  if (run->handled > 0) /* the wait before the first says nothing about the others */
    clock_before_sleep(until_ns - now_ns);
  clock_sleep_until(until_ns);
  return 0;
}

/* What becomes of a record that is due: COMPLETION_DONE to run it, or why it is left out. */
static enum completions_status decide(struct run *run, const struct feed_record *record,
                                      uint64_t lag_ns) {
  if (record->verdict != FEED_RUN)
    return feed_status(record->verdict);
  if (pace_drops(&run->pace, lag_ns))
    return COMPLETION_SKIPPED_LATE;
  bool is_overlap = run->config.overlaps != OVERLAP_ORDER && run->in_flight > 0 &&
                    overlap_find(run->overlap, &record->plan);
  run->config.stats->overlaps += is_overlap;
  return is_overlap && run->config.overlaps == OVERLAP_DROP ? COMPLETION_SKIPPED_OVERLAP
                                                            : COMPLETION_DONE;
}

/* Hands over or leaves out a record that is due. */
static int dispatch(struct run *run, const struct next *next, uint64_t elapsed_ns) {
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
    run->is_held = false;
    if (run->waits == NULL)
      feed_advance(run->config.feed);
  }
  return rc;
}

/* Whether the record waits for one in flight that it overlaps. Counts it the first time. */
static bool is_held(struct run *run, const struct block_record *record) {
  if (run->config.overlaps != OVERLAP_ORDER || run->in_flight == 0)
    return false;
  bool must_wait = overlap_find(run->overlap, record);
  run->config.stats->overlaps += must_wait && !run->is_held;
  run->is_held = run->is_held || must_wait;
  return must_wait;
}

/* Closed loop: takes records from the feed as far as it looks ahead. */
static void look_ahead(struct run *run) {
  const struct feed_record *record = feed_peek(run->config.feed);
  while (record != NULL && waits_has_space(run->waits)) {
    pace_begin(&run->pace, run->taken);
    waits_add(run->waits, &run->pace, record, run->taken++);
    feed_advance(run->config.feed);
    record = feed_peek(run->config.feed);
  }
}

/* Finds the record that is due first. Returns false when none is known to be due at any time. */
static bool find_next(struct run *run, struct next *next) {
  if (run->waits == NULL) {
    next->record = feed_peek(run->config.feed);
    next->position = run->handled;
    return next->record != NULL &&
           pace_due(&run->pace, &next->record->plan, next->position, &next->due_ns);
  }
  look_ahead(run);
  const struct waiting *first = waits_first(run->waits);
  if (first == NULL)
    return false;
  *next = (struct next){&first->record, first->position, first->due_ns};
  return true;
}

/* Returns the clock value at which the record may go: later than `now_ns` if not yet. */
static uint64_t wait_of(struct run *run, const struct next *next, uint64_t now_ns) {
  uint64_t go_ns = run->start_ns + pace_go_ns(&run->pace, next->due_ns);
  if (is_timed(run) && go_ns > now_ns)
    return go_ns;
  if (next->record->verdict != FEED_RUN)
    return now_ns;
  if (run->in_flight == run->config.depth) {
    run->was_full = true;
    return now_ns + NAP_NS;
  }
  return is_held(run, &next->record->plan) ? now_ns + NAP_NS : now_ns;
}

/* A closed loop sleeps for a completion as the application did: the kernel's threads that serve a
 * device run sooner on the processor of one that sleeps. What the application's waking up took is
 * part of the think time, so the loop's own is taken off. It looks all the time where that is not
 * known, where the application went on sooner than a sleeper could, and with many in flight: their
 * completions come sooner than one can fall asleep and wake. */
static void follow(struct run *run, uint64_t now_ns, uint64_t *wait_ns) {
  bool follows = run->waits != NULL && waits_follows(run->waits);
  run->gives_way = follows && (*wait_ns == 0 || *wait_ns > now_ns + GIVE_WAY_NS);
  bool looks = run->config.wake_up_ns == 0 || run->hurried > 0 || run->in_flight > FEW;
  if (follows && looks)
    *wait_ns = now_ns + 1;
  else if (follows && *wait_ns == 0)
    *wait_ns = now_ns + NAP_NS;
}

/* Hands over what may go now, at most a batch. *wait_ns is set to the clock value at which the next
 * request is due, 0 when there is none to wait for. */
static int submit_due(struct run *run, uint64_t now_ns, uint64_t *wait_ns) {
  uint64_t elapsed_ns = now_ns > run->start_ns ? now_ns - run->start_ns : 0;
  *wait_ns = 0;
  int rc = 0;
  unsigned batch = run->config.ops->is_inline ? 1 : BATCH;
  struct next next;
  for (unsigned i = 0; i < batch && rc == 0 && find_next(run, &next); i++) {
    uint64_t may_go_ns = wait_of(run, &next, now_ns);
    if (may_go_ns > now_ns) {
      *wait_ns = may_go_ns;
      break;
    }
    rc = dispatch(run, &next, elapsed_ns);
  }
  follow(run, now_ns, wait_ns);
  atomic_store_explicit(&run->config.view->handled, run->handled, memory_order_relaxed);
  return rc;
}

/* Whether every record that the feed has given was handed over or left out. */
static bool is_empty(const struct run *run) {
  return feed_peek(run->config.feed) == NULL && (run->waits == NULL || waits_is_empty(run->waits));
}

static void hand_over(struct run *run, uint64_t now_ns) {
  if (now_ns < run->hand_over_ns)
    return;
  completions_hand_over(run->config.log);
  run->hand_over_ns = now_ns + HAND_OVER_NS;
}

/* One turn of the loop. Returns 0 to go on, 1 at the end of the plan, -errno. */
static int turn(struct run *run) {
  uint64_t wait_ns;
  uint64_t now_ns = clock_now_ns();
  int rc = completions_error(run->config.log);
  hand_over(run, now_ns);
  if (rc == 0)
    rc = submit_due(run, now_ns, &wait_ns);
  if (rc != 0)
    return rc;
  if (is_empty(run)) {
    rc = feed_state(run->config.feed);
    if (rc != 0)
      return rc;
    run->config.stats->underruns += !run->was_underrun;
    run->was_underrun = true;
    return reap(run, 0);
  }
  run->was_underrun = run->was_underrun && is_timed(run);
  return wait_ns == 0 ? reap(run, 0) : wait_for(run, wait_ns, now_ns);
}

static void give_up(struct run *run) {
  run->unknown = slots_give_up(&run->slots, run->in_flight, clock_now_ns() - run->start_ns,
                               run->config.log, run->config.stats);
}

static void set_reached(struct run *run) {
  uint64_t reached = run->waits == NULL ? run->handled : waits_lowest(run->waits, run->taken);
  run->config.stats->reached = reached < run->unknown ? reached : run->unknown;
}

/* The submitting thread hangs in a call of the engine. */
static void end_for(void *argument) {
  struct run *run = argument;
  run->in_flight += run->is_submitting;
  run->handled += run->is_submitting;
  run->config.stats->submitted += run->is_submitting;
  give_up(run);
  set_reached(run);
  run->config.end(run->config.argument);
}

static int drain(struct run *run) {
  int rc = 0;
  while (run->in_flight > 0 && rc == 0 && !stop_is_forced())
    rc = reap(run, clock_now_ns() + NAP_NS);
  if (run->in_flight > 0 && rc == 0)
    rc = reap(run, 0);
  if (run->in_flight > 0)
    give_up(run);
  return rc;
}

static enum block_run_outcome loop(struct run *run, int *error) {
  int rc = 0;
  run->start_ns = clock_now_ns() + START_DELAY_NS;
  run->config.stats->start_ns = run->start_ns;
  while (!is_timed(run) && clock_now_ns() < run->start_ns) {
    /* The first request is not before the run's time 0. */
  }
  while (rc == 0 && !stop_requested())
    rc = turn(run);
  int drained = drain(run);
  *error = rc < 0 ? rc : drained;
  if (*error != 0)
    return BLOCK_RUN_FAILED;
  bool is_whole = rc == 1 && run->unknown == UINT64_MAX;
  return is_whole ? BLOCK_RUN_FINISHED : BLOCK_RUN_INTERRUPTED;
}

enum block_run_outcome block_run(const struct block_run_config *config, uint64_t *slipped_ns,
                                 int *error) {
  /* All memory is taken before the loop, which must not wait for any. */
  struct run run = {.config = *config, .unknown = UINT64_MAX};
  enum block_run_outcome outcome = BLOCK_RUN_FAILED;
  *error = -ENOMEM;
  run.overlap = overlap_open(config->depth);
  int rc = slots_open(&run.slots, config->depth);
  if (rc == 0)
    rc = pace_open(&run.pace, &config->pace);
  bool is_closed = config->pace.kind == PACE_CLOSED;
  if (is_closed)
    run.waits = waits_open(config->overlaps == OVERLAP_ORDER ? 1 : LOOK_AHEAD);
  bool has_waits = run.waits != NULL || !is_closed;
  if (rc == 0 && has_waits && run.overlap != NULL) {
    uint64_t slice_ns = clock_slice_ns();
    if (config->end != NULL)
      stop_on_hang(end_for, &run);
    outcome = loop(&run, error);
    clock_set_slice(slice_ns);
  }
  drift_close_part(&config->stats->drift);
  *slipped_ns = run.pace.slipped_ns;
  set_reached(&run);
  waits_close(run.waits);
  pace_close(&run.pace);
  overlap_close(run.overlap);
  slots_close(&run.slots);
  return outcome;
}
