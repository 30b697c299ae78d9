#include "play/file_stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Touches every page now, and not in the run. */
static struct file_stats_class *new_class(void) {
  struct file_stats_class *class = malloc(sizeof *class);
  if (class != NULL)
    memset(class, 0, sizeof *class);
  return class;
}

static bool add_classes(struct file_stats *stats, const struct file_plan *plan,
                        const struct file_thread *thread) {
  uint64_t first = thread == NULL ? 0 : thread->first;
  uint64_t count = thread == NULL ? plan->record_count : thread->count;
  for (uint64_t i = first; i < first + count; i++) {
    const struct file_record *record = &plan->records[i];
    struct file_stats_class **operation = &stats->operations[record->operation];
    if (*operation == NULL && (*operation = new_class()) == NULL)
      return false;
    if (record->step == FILE_NO_STEP)
      continue;
    struct file_stats_class **step = &stats->steps[record->step];
    if (*step == NULL && (*step = new_class()) == NULL)
      return false;
  }
  return true;
}

struct file_stats *file_stats_new(const struct file_plan *plan, const struct file_thread *thread) {
  struct file_stats *stats = malloc(sizeof *stats);
  if (stats == NULL)
    return NULL;
  memset(stats, 0, sizeof *stats);
  if (add_classes(stats, plan, thread))
    return stats;
  file_stats_free(stats);
  return NULL;
}

uint64_t file_stats_bytes(const struct file_plan *plan, const struct file_thread *thread) {
  bool operations[FILE_OPERATIONS] = {false};
  bool steps[FILE_NO_STEP + 1] = {false};
  uint64_t classes = 0;
  for (uint64_t i = thread->first; i < thread->first + thread->count; i++) {
    const struct file_record *record = &plan->records[i];
    classes += !operations[record->operation];
    classes += record->step != FILE_NO_STEP && !steps[record->step];
    operations[record->operation] = true;
    steps[record->step] = true;
  }
  return sizeof(struct file_stats) + classes * sizeof(struct file_stats_class);
}

bool file_stats_is_expected(const struct file_outcome *entry) {
  int64_t error = entry->result < 0 ? -entry->result : 0;
  return error == entry->record->expected_error;
}

static bool moves_data(const struct file_record *record) {
  return record->operation == FILE_READ || record->operation == FILE_WRITE;
}

static void add_to(struct file_stats_class *class, bool is_expected, uint64_t bytes,
                   uint64_t latency_ns) {
  if (!is_expected) {
    class->failed++;
    return;
  }
  class->done++;
  class->bytes += bytes;
  histogram_add(&class->latency, latency_ns);
}

static void add_step(struct file_stats *stats, const struct file_record *record) {
  add_to(stats->steps[record->step], !stats->step_failed, stats->step_bytes, stats->step_ns);
  stats->step_count++;
  stats->step_ns = 0;
  stats->step_bytes = 0;
  stats->step_failed = false;
}

void file_stats_add(struct file_stats *stats, const struct file_outcome *entry) {
  /* An operation that failed is counted and has no place among the latencies; it makes its step a
   * failed one. */
  const struct file_record *record = entry->record;
  struct file_stats_class *class = stats->operations[record->operation];
  bool is_expected = file_stats_is_expected(entry);
  uint64_t bytes = moves_data(record) && entry->result > 0 ? (uint64_t)entry->result : 0;
  add_to(class, is_expected, bytes, entry->latency_ns);
  class->short_count += moves_data(record) && entry->result >= 0 && bytes < record->length;
  class->expected += is_expected && entry->result < 0;
  stats->count++;
  stats->bytes += bytes;
  if (!is_expected) {
    uint64_t error = entry->result < 0 ? (uint64_t)-entry->result : 0;
    stats->failed++;
    stats->errors[record->operation][error < FILE_STATS_ERRORS ? error : 0]++;
  }
  if (record->step == FILE_NO_STEP)
    return;
  stats->step_ns += entry->latency_ns;
  stats->step_bytes += bytes;
  stats->step_failed = stats->step_failed || !is_expected;
  if ((record->flags & FILE_CONTINUES) == 0)
    add_step(stats, record);
}

void file_stats_add_untimed(struct file_stats *stats, uint64_t latency_ns) {
  stats->untimed++;
  stats->untimed_ns += latency_ns;
}

static void merge_class(struct file_stats_class *class, const struct file_stats_class *other) {
  if (other == NULL)
    return;
  class->done += other->done;
  class->expected += other->expected;
  class->failed += other->failed;
  class->bytes += other->bytes;
  class->short_count += other->short_count;
  histogram_merge(&class->latency, &other->latency);
}

void file_stats_merge(struct file_stats *stats, const struct file_stats *other) {
  stats->count += other->count;
  stats->failed += other->failed;
  stats->untimed += other->untimed;
  stats->untimed_ns += other->untimed_ns;
  stats->bytes += other->bytes;
  stats->step_count += other->step_count;
  histogram_merge(&stats->issue_error, &other->issue_error);
  for (unsigned i = 0; i < FILE_STATS_STEPS; i++)
    merge_class(stats->steps[i], other->steps[i]);
  for (unsigned i = 0; i < FILE_OPERATIONS; i++) {
    merge_class(stats->operations[i], other->operations[i]);
    for (unsigned error = 0; error < FILE_STATS_ERRORS; error++)
      stats->errors[i][error] += other->errors[i][error];
  }
}

void file_stats_free(struct file_stats *stats) {
  if (stats == NULL)
    return;
  for (unsigned i = 0; i < FILE_OPERATIONS; i++)
    free(stats->operations[i]);
  for (unsigned i = 0; i < FILE_STATS_STEPS; i++)
    free(stats->steps[i]);
  free(stats);
}

/* The rows are sums, so that the ones that stay need no change. */
static void thin_out(struct timeline *timeline) {
  for (uint32_t i = 1; i < timeline->count; i += 2)
    timeline->rows[i / 2] = timeline->rows[i];
  timeline->count /= 2;
  timeline->interval_ns *= 2;
}

void timeline_add(struct timeline *timeline, const struct timeline_row *row) {
  if (timeline->count == TIMELINE_ROWS)
    thin_out(timeline);
  timeline->rows[timeline->count++] = *row;
}
