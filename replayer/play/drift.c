#include "play/drift.h"

#include <stdlib.h>

#define PAIRS (DRIFT_PARTS_MAX * (DRIFT_PARTS_MAX - 1) / 2)
#define MEDIAN 50000U

void drift_open(struct drift *drift, uint64_t requests) {
  uint64_t share = requests / DRIFT_PARTS + (requests % DRIFT_PARTS != 0);
  drift->part_requests = share > 0 ? share : 1;
}

void drift_close_part(struct drift *drift) {
  if (drift->errors.count == 0 || drift->count == DRIFT_PARTS_MAX)
    return;
  drift->parts[drift->count++] =
      (struct drift_part){.at_ns = (double)(drift->first_ns / 2 + drift->last_ns / 2),
                          .error_ns = (double)histogram_percentile(&drift->errors, MEDIAN)};
  drift->errors = (struct histogram){0};
}

void drift_add(struct drift *drift, uint64_t intended_ns, uint64_t error_ns) {
  if (drift->errors.count == 0)
    drift->first_ns = intended_ns;
  drift->last_ns = intended_ns;
  histogram_add(&drift->errors, error_ns);
  if (drift->errors.count == drift->part_requests)
    drift_close_part(drift);
}

void drift_merge(struct drift *drift, const struct drift *other) {
  for (uint32_t i = 0; i < other->count && drift->count < DRIFT_PARTS_MAX; i++)
    drift->parts[drift->count++] = other->parts[i];
}

static int compare(const void *left, const void *right) {
  double a = *(const double *)left;
  double b = *(const double *)right;
  return (a > b) - (a < b);
}

double drift_over(const struct drift *drift, uint64_t length_ns) {
  double slopes[PAIRS];
  size_t count = 0;
  for (uint32_t i = 0; i < drift->count; i++)
    for (uint32_t j = i + 1; j < drift->count; j++) {
      double apart_ns = drift->parts[j].at_ns - drift->parts[i].at_ns;
      if (apart_ns != 0.0)
        slopes[count++] = (drift->parts[j].error_ns - drift->parts[i].error_ns) / apart_ns;
    }
  if (count == 0)
    return 0.0;
  qsort(slopes, count, sizeof *slopes, compare);
  double middle = (slopes[(count - 1) / 2] + slopes[count / 2]) / 2.0;
  return middle * (double)length_ns;
}
