#include "play/block_stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct block_stats *block_stats_new(uint32_t target_count, bool is_timed) {
  size_t bytes = (size_t)target_count * BLOCK_OPERATIONS * sizeof(struct block_stats_class);
  struct block_stats *stats = calloc(1, sizeof *stats);
  if (stats == NULL)
    return NULL;
  stats->classes = malloc(bytes);
  if (stats->classes == NULL) {
    free(stats);
    errno = ENOMEM;
    return NULL;
  }
  /* Not calloc: every page is touched before the run. */
  memset(stats->classes, 0, bytes);
  stats->is_timed = is_timed;
  stats->target_count = target_count;
  return stats;
}

static void add_drift(struct stats_drift *drift, double x, double y) {
  drift->count += 1.0;
  double dx = x - drift->mean_x;
  drift->mean_x += dx / drift->count;
  drift->mean_y += (y - drift->mean_y) / drift->count;
  drift->sum_xx += dx * (x - drift->mean_x);
  drift->sum_xy += dx * (y - drift->mean_y);
}

void block_stats_submit(struct block_stats *stats, uint64_t intended_ns, uint64_t submit_ns,
                        enum block_stats_cause cause) {
  /* The plan of a fast run has no times to compare with. */
  if (stats->submitted++ == 0) {
    stats->first_intended_ns = intended_ns;
    stats->first_submit_ns = submit_ns;
  }
  /* In a closed loop requests can be due in another order than that of the plan. */
  if (intended_ns > stats->last_intended_ns)
    stats->last_intended_ns = intended_ns;
  stats->last_submit_ns = submit_ns;
  if (!stats->is_timed)
    return;
  uint64_t error_ns = submit_ns - intended_ns;
  histogram_add(&stats->issue_error, error_ns);
  fidelity_add(&stats->fidelity, intended_ns, submit_ns);
  add_drift(&stats->drift, (double)intended_ns, (double)error_ns);
  stats->late[cause] += error_ns > BLOCK_STATS_LATE_NS;
}

void block_stats_end(struct block_stats *stats, const struct completions_record *record,
                     uint64_t bytes) {
  /* What failed is counted and has no place among the latencies. */
  struct block_stats_class *class =
      &stats->classes[(size_t)record->target * BLOCK_OPERATIONS + record->operation];
  class->statuses[record->status]++;
  stats->statuses[record->status]++;
  if (record->status != COMPLETION_DONE && record->status != COMPLETION_FAILED)
    return;
  stats->completed++;
  if (record->complete_ns > stats->last_complete_ns)
    stats->last_complete_ns = record->complete_ns;
  if (record->status == COMPLETION_FAILED) {
    uint32_t number = (uint32_t)-record->error;
    stats->errors[number < BLOCK_STATS_ERRORS ? number : 0]++;
    return;
  }
  class->bytes += bytes;
  histogram_add(&class->service, record->complete_ns - record->submit_ns);
  if (stats->is_timed)
    histogram_add(&class->response, record->complete_ns - record->intended_ns);
}

double block_stats_drift_ns(const struct block_stats *stats) {
  const struct stats_drift *drift = &stats->drift;
  double length_ns = (double)(stats->last_intended_ns - stats->first_intended_ns);
  return drift->sum_xx > 0.0 ? drift->sum_xy / drift->sum_xx * length_ns : 0.0;
}

void block_stats_free(struct block_stats *stats) {
  if (stats == NULL)
    return;
  free(stats->classes);
  free(stats);
}
