/* Distributions of gaps, sizes, lengths of runs and distances. */
#ifndef TRACEKIT_WORKLOAD_DIST_H
#define TRACEKIT_WORKLOAD_DIST_H

#include <stdint.h>

#include "workload/rng.h"

enum dist_kind {
  DIST_CONSTANT,
  DIST_EXPONENTIAL,
  DIST_GAMMA,
  DIST_WEIBULL,
  DIST_LOGNORMAL,
  DIST_QUANTILES, /* `values` are reached with probability `up_to`; between two, log-uniform */
  DIST_CHOICES    /* one of `values`, each up to `up_to` of the probability */
};

struct dist {
  uint32_t kind;
  uint32_t count;       /* of values */
  double scale;         /* the constant, the mean, the scale, or the median of a lognormal */
  double shape;         /* of gamma and Weibull; sigma of a lognormal */
  const double *values; /* of quantiles ascending and above 0; owned by the caller */
  const double *up_to;  /* ascending to 1; of quantiles from 0 */
};

/* Says whether the numbers make sense: scale and shape above 0 and finite, tables as above. */
int dist_is_valid(const struct dist *dist);

/* Draws a number: gamma by Marsaglia and Tsang (2000), all others by inversion. */
double dist_draw(const struct dist *dist, struct rng *rng);

/* Returns the quantile at `unit`, 0 to below 1; not for gamma. */
double dist_at(const struct dist *dist, double unit);

/* Draws from the standard normal distribution (polar method). */
double dist_normal(struct rng *rng);

#endif
