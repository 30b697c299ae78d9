#include "play/block_run.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>

#include "play/clock.h"
#include "play/handover.h"
#include "play/stop.h"

#define BATCH 64U        /* requests submitted or reaped in one turn */
#define NAP_NS 50000000U /* longest wait, so that a signal is never missed for long */
#define START_DELAY_NS 1000000U
#define LOOK_AHEAD 4096U       /* records of a closed loop that wait, at most */
#define GIVE_WAY_NS 20000U     /* shortest time to a deadline in which others may run */
#define LOOK_NS 20000U         /* as long one looks for another submitter, before it sleeps */
#define LONG_NS 500000U        /* between looks then, at most */
#define FEW 2U                 /* requests in flight for which a closed loop sleeps */
#define FOLLOWED_LAG_NS 10000U /* of requests whose times in the kernel set the lead */
#define HAND_OVER_NS 50000000U /* most that a killed run loses of its log, about */

/* Lets the engine start what it has and takes what is done, waiting until `until_ns` (clock value)
 * for the first if it is not 0. Returns 0 or -errno. */
static int reap(struct run *run, uint64_t until_ns) {
  struct completion done[BATCH];
  int count = run->config.ops->reap(run->config.engine, done, BATCH, until_ns);
  for (int i = 0; i < count; i++)
    handover_complete(run, &done[i]);
  if (count > 0)
    atomic_store_explicit(&run->config.view->failed, run->config.stats->statuses[COMPLETION_FAILED],
                          memory_order_relaxed);
  return count < 0 ? count : 0;
}

static uint64_t nap_end(uint64_t now_ns, uint64_t wanted_ns) {
  return wanted_ns < now_ns + NAP_NS ? wanted_ns : now_ns + NAP_NS;
}

/* Waits for another submitter, which may need this processor. */
static int nap(struct run *run, uint64_t until_ns) {
  int rc = reap(run, run->in_flight > 0 ? until_ns : 0);
  if (rc == 0 && run->in_flight == 0)
    clock_sleep_until(until_ns);
  return rc;
}

/* Waits until the next request is due or something else happened: sleeps far from the deadline,
 * spins near it, takes completions all the time. */
static int wait_for(struct run *run, uint64_t due_ns, uint64_t now_ns) {
  uint64_t lead_ns = run->config.spin_lead_ns;
  uint64_t awaited_ns = run->awaits_ns != 0 ? now_ns - run->awaits_ns : 0;
  if (awaited_ns > LOOK_NS)
    return nap(run, now_ns + (awaited_ns < LONG_NS ? awaited_ns : LONG_NS));
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

/* Closed loop: takes records from the feed as far as it looks ahead. */
static void look_ahead(struct run *run) {
  const struct block_record *record = feed_peek(run->config.feed);
  while (record != NULL && waits_has_space(run->waits)) {
    pace_begin(&run->pace, run->taken);
    waits_add(run->waits, &run->pace, record, run->taken++);
    feed_advance(run->config.feed, 1);
    record = feed_peek(run->config.feed);
  }
}

/* Finds the record that is due first. Returns false when none is known to be due at any time. */
static bool find_next(struct run *run, struct next *next) {
  if (run->waits == NULL) {
    next->record = feed_peek(run->config.feed);
    if (next->record == NULL)
      return false;
    next->position = feed_position(run->config.feed);
    return pace_due(&run->pace, next->record, next->position, &next->due_ns);
  }
  look_ahead(run);
  const struct waiting *first = waits_first(run->waits);
  if (first == NULL)
    return false;
  *next = (struct next){&first->record, first->position, first->due_ns};
  return true;
}

/* Notes whether the next request waits for another submitter, and returns when to look again. */
static uint64_t await(struct run *run, bool must_wait, uint64_t now_ns) {
  if (!must_wait)
    run->awaits_ns = 0;
  else if (run->awaits_ns == 0)
    run->awaits_ns = now_ns;
  return must_wait ? now_ns + 1 : now_ns;
}

/* Returns the clock value at which the record may go: later than `now_ns` if not yet. */
static uint64_t wait_of(struct run *run, const struct next *next, uint64_t now_ns) {
  uint64_t go_ns = run->start_ns + pace_go_ns(&run->pace, next->due_ns);
  struct lane *lane = run->config.lane;
  bool must_wait = lane != NULL && lane_must_wait(lane, handover_order(run, next->record));
  if (run_is_timed(run) && go_ns > now_ns)
    return go_ns;
  if (must_wait)
    return await(run, true, now_ns);
  if (feed_verdict(next->record) != FEED_RUN)
    return await(run, false, now_ns);
  if (run->in_flight == run->config.depth) {
    run->was_full = true;
    return now_ns + NAP_NS;
  }
  bool must_hold = handover_is_held(run, next->record);
  if (lane != NULL)
    return await(run, must_hold, now_ns); /* what it meets may be another's */
  return must_hold ? now_ns + NAP_NS : now_ns;
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
  if (run->config.lane != NULL)
    lane_tell(run->config.lane); /* what the turn before submitted has been started since */
  unsigned begun = handover_has_batches(run) ? handover_batch(run, batch, elapsed_ns, &rc) : 0;
  for (unsigned i = begun; i < batch && rc == 0 && find_next(run, &next); i++) {
    uint64_t may_go_ns = wait_of(run, &next, now_ns);
    if (may_go_ns > now_ns) {
      *wait_ns = may_go_ns;
      break;
    }
    bool is_request = feed_verdict(next.record) < FEED_MARK;
    if (!is_request)
      handover_pass(run, &next);
    else
      rc = handover_dispatch(run, &next, elapsed_ns);
    /* What follows is started later, and has a later time. */
    if (run->config.lane != NULL && (run->config.lane->has_turned || !is_request))
      break;
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

/* The lead of the next requests is what the kernel took for the last ones. */
static void follow_lead(struct run *run) {
  uint64_t queued_ns[BATCH];
  uint32_t count = queue_times_read(run->queue_times, queued_ns, BATCH);
  if (count == 0)
    return;
  uint64_t from_ns = run->handed_ns + run->config.follow_late_ns;
  lead_follow(&run->lead, from_ns, run->handed, queued_ns, count);
  run->handed = 0;
  run->pace.rules.lead_ns = run->lead.ns;
  run->config.stats->lead_ns = run->lead.ns;
  run->config.stats->lead_range = run->lead.range;
}

/* What is late goes together with what became due meanwhile, and the kernel queues one after the
 * other: no other request takes so long. */
static int submit_and_note(struct run *run, uint64_t now_ns, uint64_t *wait_ns) {
  uint64_t before = run->config.stats->submitted;
  run->most_lag_ns = 0;
  int rc = submit_due(run, now_ns, wait_ns);
  uint32_t count = (uint32_t)(run->config.stats->submitted - before);
  if (count > 0) {
    run->handed_ns = now_ns;
    run->handed = run->most_lag_ns <= FOLLOWED_LAG_NS ? count : 0;
  }
  return rc;
}

/* One turn of the loop. Returns 0 to go on, 1 at the end of the plan, -errno. */
static int turn(struct run *run) {
  uint64_t wait_ns;
  uint64_t now_ns = clock_now_ns();
  int rc = completions_lane_error(run->config.log);
  hand_over(run, now_ns);
  if (run->queue_times != NULL)
    follow_lead(run);
  if (rc == 0)
    rc = submit_and_note(run, now_ns, &wait_ns);
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
  run->was_underrun = run->was_underrun && run_is_timed(run);
  return wait_ns == 0 ? reap(run, 0) : wait_for(run, wait_ns, now_ns);
}

static void give_up(struct run *run) {
  run->unknown = slots_give_up(&run->slots, run->in_flight, clock_now_ns() - run->start_ns,
                               run->config.log, run->config.stats);
}

static void set_reached(struct run *run) {
  uint64_t reached = run->waits == NULL ? run->handled : waits_lowest(run->waits, run->taken);
  if (run->config.lane != NULL)
    reached = run->config.lane->position;
  run->config.stats->reached = reached < run->unknown ? reached : run->unknown;
}

/* The submitting thread hangs in a call of the engine. */
static void give_up_hanging(void *argument) {
  struct run *run = argument;
  run->in_flight += run->is_submitting;
  run->handled += run->is_submitting;
  run->config.stats->submitted += run->is_submitting;
  give_up(run);
  set_reached(run);
}

/* The same of the main thread. */
static void end_for(void *argument) {
  const struct run *run = argument;
  give_up_hanging(argument);
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

/* Whether a signal or another submitter asked for the end. */
static bool must_stop(const struct run *run) {
  return stop_requested() ||
         (run->config.lane != NULL && lanes_have_given_up(run->config.lane->all));
}

static enum block_run_outcome loop(struct run *run, int *error) {
  int rc = 0;
  run->start_ns = run->config.start_ns > 0 ? run->config.start_ns : clock_now_ns() + START_DELAY_NS;
  run->config.stats->start_ns = run->start_ns;
  while (!run_is_timed(run) && clock_now_ns() < run->start_ns) {
    /* The first request is not before the run's time 0. */
  }
  while (rc == 0 && !must_stop(run))
    rc = turn(run);
  if (rc < 0 && run->config.lane != NULL)
    lanes_give_up(run->config.lane->all);
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
  int rc = slots_open(&run.slots, config->depth);
  if (config->lane == NULL)
    run.overlap = overlap_open(config->depth);
  if (rc == 0)
    rc = pace_open(&run.pace, &config->pace);
  lead_open(&run.lead, config->pace.lead_ns);
  if (config->follows_lead)
    (void)queue_times_open(&run.queue_times); /* without it the lead stays, as the summary shows */
  bool is_closed = config->pace.kind == PACE_CLOSED;
  if (is_closed)
    run.waits = waits_open(config->overlaps == OVERLAP_ORDER ? 1 : LOOK_AHEAD);
  bool has_waits = run.waits != NULL || !is_closed;
  bool has_overlaps = run.overlap != NULL || config->lane != NULL;
  if (rc == 0 && has_waits && has_overlaps) {
    uint64_t slice_ns = clock_slice_ns();
    if (config->end != NULL)
      stop_on_hang(end_for, &run);
    if (config->hang != NULL)
      *config->hang = (struct block_run_hang){give_up_hanging, &run};
    outcome = loop(&run, error);
    clock_set_slice(slice_ns);
  }
  drift_close_part(&config->stats->drift);
  *slipped_ns = run.pace.slipped_ns;
  set_reached(&run);
  queue_times_close(run.queue_times);
  waits_close(run.waits);
  pace_close(&run.pace);
  overlap_close(run.overlap);
  slots_close(&run.slots);
  return outcome;
}
