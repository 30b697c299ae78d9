#include "replay/calibrate.h"

#include <errno.h>

#define DEPTH 4096U

/* What is opened for a calibration. */
struct parts {
  struct feed *feed;
  struct engine *engine;
  struct log *log;
  struct stats *stats;
};

static int open_parts(struct parts *parts, const struct plan *plan,
                      const struct feed_rules *rules) {
  struct engine_config config = {.depth = DEPTH, .threads = 1};
  parts->stats = stats_new(plan->target_count, true);
  int rc = parts->stats == NULL ? -ENOMEM : feed_open(&parts->feed, plan, rules);
  if (rc == 0)
    rc = log_open(&parts->log, NULL);
  return rc == 0 ? engine_null()->open(&parts->engine, &config) : rc;
}

static void close_parts(struct parts *parts) {
  if (parts->engine != NULL)
    engine_null()->close(parts->engine);
  log_close(parts->log);
  feed_close(parts->feed);
  stats_free(parts->stats);
}

int calibrate(const struct plan *plan, const struct feed_rules *rules, uint64_t spin_lead_ns,
              struct histogram *issue_error) {
  struct feed_rules beginning = *rules;
  struct progress_view view = {0};
  struct parts parts = {0};
  uint64_t slipped_ns;
  struct fraction slowness = {rules->speed.denominator, rules->speed.numerator};
  uint64_t length_ns = fraction_divide(CALIBRATE_NS, &slowness); /* of the plan */
  int rc = plan_seek(plan, rules->window.from_ns + length_ns, &beginning.window.end);
  if (beginning.window.end > rules->window.end)
    beginning.window.end = rules->window.end;
  if (rc == 0)
    rc = open_parts(&parts, plan, &beginning);
  if (rc == 0) {
    struct run_config config = {.pace = {.kind = PACE_TRACE},
                                .depth = DEPTH,
                                .spin_lead_ns = spin_lead_ns,
                                .ops = engine_null(),
                                .engine = parts.engine,
                                .feed = parts.feed,
                                .log = parts.log,
                                .stats = parts.stats,
                                .view = &view};
    (void)run_execute(&config, &slipped_ns, &rc);
    histogram_merge(issue_error, &parts.stats->issue_error);
  }
  close_parts(&parts);
  return rc;
}
