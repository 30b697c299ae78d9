#include "play/block_stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct block_stats *block_stats_new(uint32_t target_count, uint64_t requests, bool is_timed) {
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
  stats->requests = requests;
  drift_open(&stats->drift, requests);
  return stats;
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
  uint64_t queued_ns = submit_ns + stats->lead_ns;
  uint64_t error_ns = queued_ns > intended_ns ? queued_ns - intended_ns : 0;
  histogram_add(&stats->issue_error, error_ns);
  fidelity_add(&stats->fidelity, intended_ns, submit_ns);
  drift_add(&stats->drift, intended_ns, error_ns);
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
  /* With a lead a request may be done before its time. */
  bool is_early = record->complete_ns < record->intended_ns;
  if (stats->is_timed)
    histogram_add(&class->response, is_early ? 0 : record->complete_ns - record->intended_ns);
}

static uint64_t lesser(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t greater(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void merge_times(struct block_stats *stats, const struct block_stats *other) {
  bool is_first = stats->submitted == 0;
  if (other->submitted == 0)
    return;
  stats->first_intended_ns = is_first ? other->first_intended_ns
                                      : lesser(stats->first_intended_ns, other->first_intended_ns);
  stats->first_submit_ns =
      is_first ? other->first_submit_ns : lesser(stats->first_submit_ns, other->first_submit_ns);
  stats->last_intended_ns = greater(stats->last_intended_ns, other->last_intended_ns);
  stats->last_submit_ns = greater(stats->last_submit_ns, other->last_submit_ns);
  stats->last_complete_ns = greater(stats->last_complete_ns, other->last_complete_ns);
}

static void merge_class(struct block_stats_class *class, const struct block_stats_class *other) {
  for (unsigned i = 0; i < COMPLETION_STATUSES; i++)
    class->statuses[i] += other->statuses[i];
  class->bytes += other->bytes;
  histogram_merge(&class->service, &other->service);
  histogram_merge(&class->response, &other->response);
}

void block_stats_merge(struct block_stats *stats, const struct block_stats *other) {
  merge_times(stats, other);
  stats->submitted += other->submitted;
  stats->completed += other->completed;
  stats->done_before += other->done_before;
  stats->in_flight_max += other->in_flight_max;
  stats->reached = lesser(stats->reached, other->reached);
  stats->underruns += other->underruns;
  stats->overlaps += other->overlaps;
  for (unsigned i = 0; i < BLOCK_STATS_CAUSES; i++)
    stats->late[i] += other->late[i];
  for (unsigned i = 0; i < COMPLETION_STATUSES; i++)
    stats->statuses[i] += other->statuses[i];
  for (unsigned i = 0; i < BLOCK_STATS_ERRORS; i++)
    stats->errors[i] += other->errors[i];
  lead_range_merge(&stats->lead_range, &other->lead_range);
  histogram_merge(&stats->issue_error, &other->issue_error);
  drift_merge(&stats->drift, &other->drift);
  histogram_merge(&stats->fidelity.intended, &other->fidelity.intended);
  histogram_merge(&stats->fidelity.actual, &other->fidelity.actual);
  for (uint32_t i = 0; i < stats->target_count * BLOCK_OPERATIONS; i++)
    merge_class(&stats->classes[i], &other->classes[i]);
}

void block_stats_free(struct block_stats *stats) {
  if (stats == NULL)
    return;
  free(stats->classes);
  free(stats);
}
