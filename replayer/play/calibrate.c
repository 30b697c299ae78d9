#include "play/calibrate.h"

#include <errno.h>

#define DEPTH 4096U

/* What is opened for a calibration. */
struct parts {
  struct feed *feed;
  struct engine *engine;
  struct completions *log;
  struct block_stats *stats;
};

static int open_parts(struct parts *parts, const struct block_plan *plan,
                      const struct feed_rules *rules) {
  struct engine_config config = {.depth = DEPTH, .threads = 1};
  parts->stats = block_stats_new(plan->target_count, rules->window.end - rules->window.first, true);
  int rc = parts->stats == NULL ? -ENOMEM : feed_open(&parts->feed, plan, rules);
  if (rc == 0)
    rc = completions_open(&parts->log, NULL, 1);
  return rc == 0 ? engine_null()->open(&parts->engine, &config) : rc;
}

static void close_parts(struct parts *parts) {
  if (parts->engine != NULL)
    engine_null()->close(parts->engine);
  completions_close(parts->log);
  feed_close(parts->feed);
  block_stats_free(parts->stats);
}

int calibrate(const struct block_plan *plan, const struct feed_rules *rules, uint64_t spin_lead_ns,
              struct histogram *issue_error) {
  /* The same loop runs the beginning of the plan on the null engine: its errors are the machine's
   * own. */
  struct feed_rules beginning = *rules;
  struct progress_view view = {0};
  struct parts parts = {0};
  uint64_t slipped_ns;
  struct fraction slowness = {rules->speed.denominator, rules->speed.numerator};
  uint64_t length_ns = fraction_divide(CALIBRATE_NS, &slowness); /* of the plan */
  int rc = block_plan_seek(plan, rules->window.from_ns + length_ns, &beginning.window.end);
  if (beginning.window.end > rules->window.end)
    beginning.window.end = rules->window.end;
  if (rc == 0)
    rc = open_parts(&parts, plan, &beginning);
  if (rc == 0) {
    struct block_run_config config = {.pace = {.kind = PACE_TRACE},
                                      .depth = DEPTH,
                                      .spin_lead_ns = spin_lead_ns,
                                      .ops = engine_null(),
                                      .engine = parts.engine,
                                      .feed = feed_lane(parts.feed, 0),
                                      .log = completions_lane(parts.log, 0),
                                      .stats = parts.stats,
                                      .view = &view};
    (void)block_run(&config, &slipped_ns, &rc);
    histogram_merge(issue_error, &parts.stats->issue_error);
  }
  close_parts(&parts);
  return rc;
}
