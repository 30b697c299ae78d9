#include "files/tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Touches every page now, and not in the run. */
static struct tally_class *new_class(void) {
  struct tally_class *class = malloc(sizeof *class);
  if (class != NULL)
    memset(class, 0, sizeof *class);
  return class;
}

static bool add_classes(struct tally *tally, const struct plan *plan,
                        const struct plan_thread *thread) {
  uint64_t first = thread == NULL ? 0 : thread->first;
  uint64_t count = thread == NULL ? plan->record_count : thread->count;
  for (uint64_t i = first; i < first + count; i++) {
    const struct plan_record *record = &plan->records[i];
    struct tally_class **operation = &tally->operations[record->operation];
    if (*operation == NULL && (*operation = new_class()) == NULL)
      return false;
    if (record->step == PLAN_NO_STEP)
      continue;
    struct tally_class **step = &tally->steps[record->step];
    if (*step == NULL && (*step = new_class()) == NULL)
      return false;
  }
  return true;
}

struct tally *tally_new(const struct plan *plan, const struct plan_thread *thread) {
  struct tally *tally = malloc(sizeof *tally);
  if (tally == NULL)
    return NULL;
  memset(tally, 0, sizeof *tally);
  if (add_classes(tally, plan, thread))
    return tally;
  tally_free(tally);
  return NULL;
}

bool tally_is_expected(const struct tally_entry *entry) {
  int64_t error = entry->result < 0 ? -entry->result : 0;
  return error == entry->record->expected_error;
}

static bool moves_data(const struct plan_record *record) {
  return record->operation == PLAN_READ || record->operation == PLAN_WRITE;
}

static void add_to(struct tally_class *class, bool is_expected, uint64_t bytes,
                   uint64_t latency_ns) {
  if (!is_expected) {
    class->failed++;
    return;
  }
  class->done++;
  class->bytes += bytes;
  histogram_add(&class->latency, latency_ns);
}

static void add_step(struct tally *tally, const struct plan_record *record) {
  add_to(tally->steps[record->step], !tally->step_failed, tally->step_bytes, tally->step_ns);
  tally->step_count++;
  tally->step_ns = 0;
  tally->step_bytes = 0;
  tally->step_failed = false;
}

void tally_add(struct tally *tally, const struct tally_entry *entry) {
  const struct plan_record *record = entry->record;
  struct tally_class *class = tally->operations[record->operation];
  bool is_expected = tally_is_expected(entry);
  uint64_t bytes = moves_data(record) && entry->result > 0 ? (uint64_t)entry->result : 0;
  add_to(class, is_expected, bytes, entry->latency_ns);
  class->short_count += moves_data(record) && entry->result >= 0 && bytes < record->length;
  class->expected += is_expected && entry->result < 0;
  tally->count++;
  tally->bytes += bytes;
  if (!is_expected) {
    uint64_t error = entry->result < 0 ? (uint64_t)-entry->result : 0;
    tally->failed++;
    tally->errors[record->operation][error < TALLY_ERRORS ? error : 0]++;
  }
  if (record->step == PLAN_NO_STEP)
    return;
  tally->step_ns += entry->latency_ns;
  tally->step_bytes += bytes;
  tally->step_failed = tally->step_failed || !is_expected;
  if ((record->flags & PLAN_CONTINUES) == 0)
    add_step(tally, record);
}

void tally_add_untimed(struct tally *tally, uint64_t latency_ns) {
  tally->untimed++;
  tally->untimed_ns += latency_ns;
}

static void merge_class(struct tally_class *class, const struct tally_class *other) {
  if (other == NULL)
    return;
  class->done += other->done;
  class->expected += other->expected;
  class->failed += other->failed;
  class->bytes += other->bytes;
  class->short_count += other->short_count;
  histogram_merge(&class->latency, &other->latency);
}

void tally_merge(struct tally *tally, const struct tally *other) {
  tally->count += other->count;
  tally->failed += other->failed;
  tally->untimed += other->untimed;
  tally->untimed_ns += other->untimed_ns;
  tally->bytes += other->bytes;
  tally->step_count += other->step_count;
  histogram_merge(&tally->issue_error, &other->issue_error);
  for (unsigned i = 0; i < TALLY_STEPS; i++)
    merge_class(tally->steps[i], other->steps[i]);
  for (unsigned i = 0; i < PLAN_OPERATIONS; i++) {
    merge_class(tally->operations[i], other->operations[i]);
    for (unsigned error = 0; error < TALLY_ERRORS; error++)
      tally->errors[i][error] += other->errors[i][error];
  }
}

void tally_free(struct tally *tally) {
  if (tally == NULL)
    return;
  for (unsigned i = 0; i < PLAN_OPERATIONS; i++)
    free(tally->operations[i]);
  for (unsigned i = 0; i < TALLY_STEPS; i++)
    free(tally->steps[i]);
  free(tally);
}
