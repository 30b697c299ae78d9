/* What this machine can do without a device: the beginning of the plan, run on nothing. */
#ifndef TRACEKIT_PLAY_CALIBRATE_H
#define TRACEKIT_PLAY_CALIBRATE_H

#include "play/block_plan.h"
#include "play/block_run.h"
#include "play/feed.h"
#include "play/histogram.h"

#define CALIBRATE_NS 25000000U /* of the run's time */

/* Runs what `rules` choose of the plan's first CALIBRATE_NS with the null engine at its times, and
 * adds how late each request was to *issue_error. Nothing is written. Returns 0 or -errno. */
int calibrate(const struct block_plan *plan, const struct feed_rules *rules, uint64_t spin_lead_ns,
              struct histogram *issue_error);

#endif
