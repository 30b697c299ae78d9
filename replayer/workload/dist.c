#include "workload/dist.h"

#include <math.h>
#include <stddef.h>

static int table_is_valid(const struct dist *dist) {
  int is_line = dist->kind == DIST_QUANTILES;
  if (dist->values == NULL || dist->up_to == NULL || dist->count < (is_line ? 2U : 1U))
    return 0;
  if (is_line && (dist->up_to[0] != 0.0 || !(dist->values[0] > 0.0)))
    return 0;
  for (uint32_t at = 0; at < dist->count; at++) {
    if (!isfinite(dist->values[at]) || dist->values[at] < 0.0)
      return 0;
    if (at > 0 && (dist->up_to[at] < dist->up_to[at - 1] ||
                   (is_line && dist->values[at] < dist->values[at - 1])))
      return 0;
  }
  return dist->up_to[0] >= 0.0 && dist->up_to[dist->count - 1] == 1.0;
}

int dist_is_valid(const struct dist *dist) {
  if (dist->kind == DIST_QUANTILES || dist->kind == DIST_CHOICES)
    return table_is_valid(dist);
  if (dist->kind > DIST_LOGNORMAL || !isfinite(dist->scale) || dist->scale < 0.0)
    return 0;
  if (dist->kind == DIST_CONSTANT || dist->kind == DIST_EXPONENTIAL)
    return 1;
  return isfinite(dist->shape) && dist->shape > 0.0;
}

double dist_normal(struct rng *rng) {
  for (;;) {
    double x = 2.0 * rng_unit(rng) - 1.0;
    double y = 2.0 * rng_unit(rng) - 1.0;
    double square = x * x + y * y;
    if (square > 0.0 && square < 1.0)
      return x * sqrt(-2.0 * log(square) / square);
  }
}

/* Marsaglia and Tsang 2000; a shape below 1 is one above it times a power of a uniform number. */
static double standard_gamma(double shape, struct rng *rng) {
  double lift = 1.0;
  if (shape < 1.0) {
    lift = pow(1.0 - rng_unit(rng), 1.0 / shape);
    shape += 1.0;
  }
  double d = shape - 1.0 / 3.0;
  double c = 1.0 / sqrt(9.0 * d);
  for (;;) {
    double x = dist_normal(rng);
    double v = 1.0 + c * x;
    if (v <= 0.0)
      continue;
    v = v * v * v;
    double unit = 1.0 - rng_unit(rng);
    if (log(unit) < 0.5 * x * x + d * (1.0 - v + log(v)))
      return lift * d * v;
  }
}

/* Returns the first place whose `up_to` is above the number. */
static uint32_t place_of(const struct dist *dist, double unit) {
  uint32_t low = 0;
  uint32_t high = dist->count - 1;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (dist->up_to[middle] > unit)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static double quantile(const struct dist *dist, double unit) {
  uint32_t after = place_of(dist, unit);
  if (after == 0)
    return dist->values[0];
  double low = dist->values[after - 1];
  double high = dist->values[after];
  double from = dist->up_to[after - 1];
  double width = dist->up_to[after] - from;
  return width > 0.0 && high > low ? low * pow(high / low, (unit - from) / width) : high;
}

/* The normal quantile: Acklam's start, then one step of Halley's method with erfc. */
static double normal_at(double unit) {
  double tail = unit < 0.5 ? unit : 1.0 - unit;
  if (tail <= 0.0)
    return unit < 0.5 ? -38.0 : 38.0;
  double t = sqrt(-2.0 * log(tail));
  double rough = t - ((0.010328 * t + 0.802853) * t + 2.515517) /
                         (((0.001308 * t + 0.189269) * t + 1.432788) * t + 1.0);
  double x = unit < 0.5 ? -rough : rough;
  for (int step = 0; step < 2; step++) {
    double error = 0.5 * erfc(-x / sqrt(2.0)) - unit;
    double change = error * sqrt(2.0 * acos(-1.0)) * exp(0.5 * x * x);
    x -= change / (1.0 + 0.5 * x * change);
  }
  return x;
}

double dist_at(const struct dist *dist, double unit) {
  switch (dist->kind) {
  case DIST_EXPONENTIAL:
    return -dist->scale * log1p(-unit);
  case DIST_WEIBULL:
    return dist->scale * pow(-log1p(-unit), 1.0 / dist->shape);
  case DIST_LOGNORMAL:
    return dist->scale * exp(dist->shape * normal_at(unit));
  case DIST_QUANTILES:
    return quantile(dist, unit);
  case DIST_CHOICES:
    return dist->values[place_of(dist, unit)];
  default:
    return dist->scale;
  }
}

double dist_draw(const struct dist *dist, struct rng *rng) {
  switch (dist->kind) {
  case DIST_CONSTANT:
    return dist->scale;
  case DIST_GAMMA:
    return dist->scale * standard_gamma(dist->shape, rng);
  case DIST_LOGNORMAL:
    return dist->scale * exp(dist->shape * dist_normal(rng));
  default:
    return dist_at(dist, rng_unit(rng));
  }
}
