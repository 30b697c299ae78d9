/* Filling a capacity, and exchanging groups as long as that saves time. */
#ifndef TRACEKIT_MODEL_BEST_SEARCH_H
#define TRACEKIT_MODEL_BEST_SEARCH_H

#include <stdint.h>

#include "model/best_bound.h"
#include "model/best_set.h"

/* Places groups by falling value as long as they fit, none below 0; `space` has space for all. */
void best_search_fill(struct best_set *set, int64_t blocks, const double *values,
                      struct best_value *space);

/* Exchanges groups until nothing helps or so many requests were looked at; needs a set that is
 * timed and linked. */
void best_search_climb(struct best_set *set, int64_t blocks, uint64_t looks,
                       struct best_value *space);

#endif
