#include "workload/arrival.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>

#define LATEST_NS ((int64_t)1 << 62)

static int setup_is_valid(const struct arrival_setup *setup) {
  if (!dist_is_valid(&setup->gap) || !(fabs(setup->correlation) < 1.0))
    return 0;
  if (setup->correlation != 0.0 && setup->gap.kind == DIST_GAMMA)
    return 0;
  if (setup->has_bursts && (!dist_is_valid(&setup->off) || !dist_is_valid(&setup->burst)))
    return 0;
  double mass = 0.0;
  for (uint32_t at = 0; at < setup->phase_count; at++) {
    double ns = setup->phase_ns[at];
    double rate = setup->phase_rates[at];
    if (!(ns >= 1.0) || !isfinite(ns) || !(rate >= 0.0) || !isfinite(rate))
      return 0;
    mass += ns * rate;
  }
  return setup->phase_count == 0 || (mass > 0.0 && isfinite(mass));
}

int arrival_init(struct arrival *arrival, const struct arrival_setup *setup, struct rng rng) {
  if (!setup_is_valid(setup))
    return -EINVAL;
  *arrival = (struct arrival){.setup = *setup, .rng = rng};
  for (uint32_t at = 0; at < setup->phase_count; at++) {
    arrival->cycle_ns += setup->phase_ns[at];
    arrival->cycle_mass += setup->phase_ns[at] * setup->phase_rates[at];
  }
  if (setup->phase_count > 0)
    arrival->left_ns = setup->phase_ns[0];
  if (setup->correlation != 0.0)
    arrival->normal = dist_normal(&arrival->rng);
  return 0;
}

static void pass(struct arrival *arrival, double ns) {
  double whole_ns = floor(ns);
  if (!(whole_ns < (double)(LATEST_NS - arrival->now_ns))) {
    arrival->now_ns = LATEST_NS;
    return;
  }
  arrival->now_ns += (int64_t)whole_ns;
  arrival->part_ns += ns - whole_ns;
  if (arrival->part_ns >= 1.0) {
    arrival->part_ns -= 1.0;
    arrival->now_ns++;
  }
}

/* Lets a gap of constant rate pass through the phases. */
static void stretch(struct arrival *arrival, double gap_ns) {
  const struct arrival_setup *setup = &arrival->setup;
  double cycles = floor(gap_ns / arrival->cycle_mass);
  if (cycles > 0.0) {
    pass(arrival, cycles * arrival->cycle_ns);
    gap_ns = fmax(gap_ns - cycles * arrival->cycle_mass, 0.0);
  }
  for (;;) {
    double rate = setup->phase_rates[arrival->phase];
    if (rate > 0.0 && gap_ns < arrival->left_ns * rate)
      break;
    gap_ns = fmax(gap_ns - arrival->left_ns * rate, 0.0);
    pass(arrival, arrival->left_ns);
    arrival->phase = (arrival->phase + 1) % setup->phase_count;
    arrival->left_ns = setup->phase_ns[arrival->phase];
  }
  double ns = gap_ns / setup->phase_rates[arrival->phase];
  pass(arrival, ns);
  arrival->left_ns -= ns;
}

static double inner_gap(struct arrival *arrival) {
  double correlation = arrival->setup.correlation;
  if (correlation == 0.0)
    return dist_draw(&arrival->setup.gap, &arrival->rng);
  double unit = 0.5 * erfc(-arrival->normal / sqrt(2.0));
  double fresh = dist_normal(&arrival->rng);
  arrival->normal = correlation * arrival->normal + sqrt(1.0 - correlation * correlation) * fresh;
  return dist_at(&arrival->setup.gap, fmin(unit, 1.0 - 0x1p-53));
}

static double next_gap(struct arrival *arrival) {
  const struct arrival_setup *setup = &arrival->setup;
  if (!setup->has_bursts)
    return inner_gap(arrival);
  if (arrival->left_requests > 0) {
    arrival->left_requests--;
    return inner_gap(arrival);
  }
  double requests = dist_draw(&setup->burst, &arrival->rng);
  arrival->left_requests = requests < 1.5 ? 0 : (uint64_t)(fmin(requests, 0x1p62) + 0.5) - 1;
  return dist_draw(&setup->off, &arrival->rng);
}

int64_t arrival_next(struct arrival *arrival) {
  double gap_ns = next_gap(arrival);
  if (arrival->setup.phase_count > 0)
    stretch(arrival, gap_ns);
  else
    pass(arrival, gap_ns);
  return arrival->now_ns;
}
