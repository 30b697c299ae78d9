#include "play/emulation.h"

#include <stdlib.h>
#include <string.h>

#include "play/json.h"
#include "play/summary.h"

#define P99 99000U
#define MEAN_RATIO 0.05
#define P99_RATIO 0.1
/* What a turn of the loop with its readings of the clock costs, and a few of them. */
#define MEAN_FLOOR_NS 500U
#define P99_FLOOR_NS 2000U

struct emulation *emulation_new(uint32_t target_count) {
  size_t bytes = (size_t)target_count * sizeof(struct emulation);
  struct emulation *emulation = malloc(bytes);
  /* Not calloc: every page is touched before the run. */
  if (emulation != NULL)
    memset(emulation, 0, bytes);
  return emulation;
}

void emulation_add(struct emulation *emulation, uint64_t modelled_ns, uint64_t late_ns) {
  histogram_add(&emulation->modelled, modelled_ns);
  histogram_add(&emulation->lateness, late_ns);
}

static double most(double ratio, double of_ns, uint64_t floor_ns) {
  return ratio * of_ns > (double)floor_ns ? ratio * of_ns : (double)floor_ns;
}

bool emulation_is_within_budget(const struct emulation *emulation) {
  double p99_ns = (double)histogram_percentile(&emulation->modelled, P99);
  double late_p99_ns = (double)histogram_percentile(&emulation->lateness, P99);
  return histogram_mean(&emulation->lateness) <=
             most(MEAN_RATIO, histogram_mean(&emulation->modelled), MEAN_FLOOR_NS) &&
         late_p99_ns <= most(P99_RATIO, p99_ns, P99_FLOOR_NS);
}

static double ratio(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

void emulation_write_budget(struct json *json, const struct emulation *emulation, uint32_t count) {
  bool is_within = true;
  double modelled_ns = 0.0;
  double late_ns = 0.0;
  for (uint32_t i = 0; i < count; i++) {
    is_within = is_within && emulation_is_within_budget(&emulation[i]);
    modelled_ns += emulation[i].modelled.sum_ns;
    late_ns += emulation[i].lateness.sum_ns;
  }
  json_bool(json, "is_within_budget", is_within);
  json_fine(json, "lateness_ratio", ratio(late_ns, modelled_ns));
  json_open(json, "budget", '{');
  json_fine(json, "mean_ratio", MEAN_RATIO);
  json_number(json, "mean_floor_ns", MEAN_FLOOR_NS);
  json_fine(json, "p99_ratio", P99_RATIO);
  json_number(json, "p99_floor_ns", P99_FLOOR_NS);
  json_close(json, '}');
}

void emulation_write(struct json *json, const struct emulation *emulation) {
  json_number(json, "requests", emulation->modelled.count);
  summary_histogram(json, "modelled", &emulation->modelled);
  summary_histogram(json, "lateness", &emulation->lateness);
  json_number(json, "modelled_sum_ns", (uint64_t)emulation->modelled.sum_ns);
  json_number(json, "lateness_sum_ns", (uint64_t)emulation->lateness.sum_ns);
  json_fine(json, "lateness_ratio", ratio(emulation->lateness.sum_ns, emulation->modelled.sum_ns));
  json_bool(json, "is_within_budget", emulation_is_within_budget(emulation));
}
