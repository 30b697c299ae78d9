/* Ranks by Zipf's law in constant time and memory: rejection-inversion, Hormann and Derflinger
 * 1996. */
#ifndef TRACEKIT_WORKLOAD_ZIPF_H
#define TRACEKIT_WORKLOAD_ZIPF_H

#include <stdint.h>

#include "workload/rng.h"

struct zipf {
  double exponent;
  double count;
  double first; /* H(1.5) - 1 */
  double last;  /* H(count + 0.5) */
  double sure;  /* ranks this close to the inverse are taken at once */
};

/* Prepares ranks 1 to `count` (at least 1) with probability ~ rank^-exponent, which is above 0. */
void zipf_init(struct zipf *zipf, double exponent, uint64_t count);

/* Draws a rank less 1. */
uint64_t zipf_draw(const struct zipf *zipf, struct rng *rng);

#endif
