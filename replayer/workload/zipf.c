#include "workload/zipf.h"

#include <math.h>

/* (exp(x) - 1) / x and log(1 + x) / x, also near 0. */
static double near_exp(double x) { return fabs(x) > 1e-8 ? expm1(x) / x : 1.0 + x / 2.0; }
static double near_log(double x) { return fabs(x) > 1e-8 ? log1p(x) / x : 1.0 - x / 2.0; }

/* The integral of x^-exponent from 1, its inverse and the density itself. */
static double integral(double exponent, double x) {
  double log_x = log(x);
  return near_exp((1.0 - exponent) * log_x) * log_x;
}

static double inverse(double exponent, double x) {
  double t = fmax(x * (1.0 - exponent), -1.0);
  return exp(near_log(t) * x);
}

static double density(double exponent, double x) { return exp(-exponent * log(x)); }

void zipf_init(struct zipf *zipf, double exponent, uint64_t count) {
  zipf->exponent = exponent;
  zipf->count = (double)count;
  zipf->first = integral(exponent, 1.5) - 1.0;
  zipf->last = integral(exponent, zipf->count + 0.5);
  zipf->sure = 2.0 - inverse(exponent, integral(exponent, 2.5) - density(exponent, 2.0));
}

uint64_t zipf_draw(const struct zipf *zipf, struct rng *rng) {
  for (;;) {
    double u = zipf->last + rng_unit(rng) * (zipf->first - zipf->last);
    double x = inverse(zipf->exponent, u);
    double rank = fmin(fmax(floor(x + 0.5), 1.0), zipf->count);
    if (rank - x <= zipf->sure ||
        u >= integral(zipf->exponent, rank + 0.5) - density(zipf->exponent, rank))
      return (uint64_t)rank - 1;
  }
}
