/* When requests arrive: gaps between them, bursts, and phases in which they come faster or slower.
 *
 * Gaps are drawn in a time of constant rate and then stretched by the rate of the phase in which
 * they pass (the time change of an inhomogeneous process): exponential gaps become an exact Poisson
 * process of the phases' rates. Correlated gaps are an autoregressive normal series of order 1
 * through the quantiles of the gap: the distribution of a gap stays as it is. */
#ifndef TRACEKIT_WORKLOAD_ARRIVAL_H
#define TRACEKIT_WORKLOAD_ARRIVAL_H

#include <stdint.h>

#include "workload/dist.h"

struct arrival_setup {
  struct dist gap;    /* ns between requests (of a burst) */
  struct dist off;    /* ns between the last request of a burst and the first of the next */
  struct dist burst;  /* requests of a burst, at least 1 */
  double correlation; /* of neighbouring gaps, above -1 and below 1; 0 with gamma */
  uint32_t has_bursts;
  uint32_t phase_count;
  const double *phase_ns;    /* how long each phase takes; after the last comes the first */
  const double *phase_rates; /* how many times as fast requests come in it; 0: none */
};

struct arrival {
  struct arrival_setup setup;
  struct rng rng;
  double normal;   /* of the gap before */
  double cycle_ns; /* all phases in real time and in that of constant rate */
  double cycle_mass;
  double left_ns; /* of the phase */
  double part_ns; /* of a nanosecond, below 1 */
  int64_t now_ns;
  uint64_t left_requests; /* of the burst */
  uint32_t phase;
};

/* Starts at time 0. Returns 0 or -EINVAL. What the setup points to is not copied. */
int arrival_init(struct arrival *arrival, const struct arrival_setup *setup, struct rng rng);

/* Returns the time of the next request in ns, never before that of the last; at most 2^62. */
int64_t arrival_next(struct arrival *arrival);

#endif
