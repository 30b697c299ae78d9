#include "play/submitters.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "play/clock.h"
#include "play/diag.h"
#include "play/stop.h"

#define START_DELAY_NS 2000000U /* until all look at the clock */
#define PATIENCE_NS 300000000U  /* for all that hang when the end is forced */
#define LOOK_NS 200000U         /* between looks at others that end */

enum state { OPENING, READY, DONE };

struct submitter {
  struct submitters *all;
  struct block_run_config config;
  struct lane lane;
  struct block_run_hang hang;
  struct stop_watch watch;
  struct engine_report report;
  pthread_t thread;
  bool has_thread;
  enum block_run_outcome outcome;
  int error;
  _Atomic int state; /* enum state */
};

struct submitters {
  struct submitters_rules rules;
  struct lanes *lanes;
  struct block_stats *stats; /* of the first one */
  struct lane first;
  _Atomic bool may_go;
  uint64_t start_ns;
  struct submitter others[LANES_MAX];
};

static void rest(void) { clock_sleep_until(clock_now_ns() + LOOK_NS); }

/* The kernel wants a ring to be used by the thread that has made it. */
static void *submit(void *argument) {
  struct submitter *submitter = argument;
  struct submitters *all = submitter->all;
  struct block_run_config *config = &submitter->config;
  uint64_t slipped_ns;
  clock_exact_timers();
  stop_watch_me(&submitter->watch);
  submitter->error = config->ops->open(&config->engine, all->rules.engine);
  atomic_store_explicit(&submitter->state, READY, memory_order_release);
  while (!atomic_load_explicit(&all->may_go, memory_order_acquire))
    rest();
  if (submitter->error == 0 && !lanes_have_given_up(all->lanes)) {
    config->start_ns = all->start_ns;
    submitter->outcome = block_run(config, &slipped_ns, &submitter->error);
    config->ops->describe(config->engine, &submitter->report);
  }
  if (config->engine != NULL && !stop_is_forced())
    config->ops->close(config->engine);
  /* Release: what it counted and logged is there for who sees it. */
  atomic_store_explicit(&submitter->state, DONE, memory_order_release);
  return NULL;
}

static int start_one(struct submitters *all, uint32_t number, const struct block_run_config *config,
                     uint64_t requests) {
  struct submitter *submitter = &all->others[number];
  submitter->all = all;
  submitter->config = *config;
  lane_open(&submitter->lane, all->lanes, number, config->depth);
  submitter->config.lane = &submitter->lane;
  submitter->config.engine = NULL;
  submitter->config.feed = feed_lane(all->rules.feed, number);
  submitter->config.log = completions_lane(all->rules.log, number);
  submitter->config.view = &all->rules.views[number];
  submitter->config.end = NULL;
  submitter->config.hang = &submitter->hang;
  submitter->config.stats =
      block_stats_new(config->stats->target_count, requests, config->stats->is_timed);
  if (submitter->config.stats == NULL)
    return -ENOMEM;
  submitter->config.stats->lead_ns = config->stats->lead_ns;
  int rc = stop_thread_create(&submitter->thread, submit, submitter);
  submitter->has_thread = rc == 0;
  return rc;
}

/* Waits until all engines are open. */
static int await_engines(struct submitters *all) {
  int rc = 0;
  for (uint32_t i = 1; i < all->rules.count; i++) {
    struct submitter *submitter = &all->others[i];
    while (atomic_load_explicit(&submitter->state, memory_order_acquire) == OPENING)
      rest();
    rc = rc != 0 ? rc : submitter->error;
  }
  return rc;
}

int submitters_start(struct submitters **out, const struct submitters_rules *rules,
                     struct block_run_config *config) {
  struct submitters *all = calloc(1, sizeof *all);
  int rc = all == NULL ? -ENOMEM : 0;
  if (rc == 0) {
    all->rules = *rules;
    all->stats = config->stats;
    all->lanes = lanes_open(rules->count, config->depth);
    rc = all->lanes == NULL ? -ENOMEM : 0;
  }
  for (uint32_t i = 1; i < rules->count && rc == 0; i++)
    rc = start_one(all, i, config, config->stats->requests);
  if (rc == 0)
    rc = await_engines(all);
  if (rc != 0) {
    diag("cannot start %u submitting threads: %s", rules->count, strerror(-rc));
    submitters_close(all);
    return rc;
  }
  lane_open(&all->first, all->lanes, 0, config->depth);
  config->lane = &all->first;
  *out = all;
  return 0;
}

void submitters_go(struct submitters *submitters, struct block_run_config *config) {
  submitters->start_ns = clock_now_ns() + START_DELAY_NS;
  config->start_ns = submitters->start_ns;
  atomic_store_explicit(&submitters->may_go, true, memory_order_release);
}

/* Waits until it has ended, or hangs and what it has in flight was given up. *forced_ns is when the
 * end was forced, as all see it, 0: it is not. One that is only late is waited for: what it counts
 * and logs is its own. */
static void await(struct submitter *submitter, uint64_t *forced_ns) {
  while (atomic_load_explicit(&submitter->state, memory_order_acquire) != DONE) {
    uint64_t now_ns = clock_now_ns();
    *forced_ns = *forced_ns == 0 && stop_is_forced() ? now_ns : *forced_ns;
    bool is_over = *forced_ns != 0 && now_ns > *forced_ns + PATIENCE_NS;
    if (is_over && stop_abandon(&submitter->watch)) {
      submitter->outcome = BLOCK_RUN_INTERRUPTED;
      submitter->hang.give_up(submitter->hang.run);
      return;
    }
    rest();
  }
  (void)pthread_join(submitter->thread, NULL); /* fails only for a thread that is not ours */
  submitter->has_thread = false;
}

static void add_report(struct engine_report *report, const struct engine_report *other) {
  report->resubmitted += other->resubmitted;
  report->retried += other->retried;
  report->unpolled += other->unpolled;
  report->wakes += other->wakes;
}

enum block_run_outcome submitters_end(struct submitters *submitters, enum block_run_outcome outcome,
                                      int *error) {
  uint64_t forced_ns = 0;
  for (uint32_t i = 1; i < submitters->rules.count; i++) {
    struct submitter *submitter = &submitters->others[i];
    await(submitter, &forced_ns);
    block_stats_merge(submitters->stats, submitter->config.stats);
    add_report(submitters->rules.report, &submitter->report);
    bool is_worse = submitter->outcome > outcome;
    outcome = is_worse ? submitter->outcome : outcome;
    *error = *error == 0 ? submitter->error : *error;
  }
  return outcome;
}

void submitters_close(struct submitters *submitters) {
  bool is_used = false;
  if (submitters == NULL)
    return;
  if (!submitters->may_go && submitters->lanes != NULL) {
    lanes_give_up(submitters->lanes);
    atomic_store_explicit(&submitters->may_go, true, memory_order_release);
  }
  for (uint32_t i = 1; i < submitters->rules.count; i++) {
    struct submitter *submitter = &submitters->others[i];
    bool hangs = submitter->has_thread && submitters->start_ns > 0;
    if (submitter->has_thread && !hangs)
      (void)pthread_join(submitter->thread, NULL); /* fails only for a thread that is not ours */
    is_used = is_used || hangs;
    if (!hangs)
      block_stats_free(submitter->config.stats);
  }
  if (is_used)
    return;
  lanes_close(submitters->lanes);
  free(submitters);
}
