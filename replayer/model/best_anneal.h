/* Simulated annealing of a placement: single groups, neighbours, and what keeps requests apart. */
#ifndef TRACEKIT_MODEL_BEST_ANNEAL_H
#define TRACEKIT_MODEL_BEST_ANNEAL_H

#include <stdint.h>

#include "model/best_set.h"

/* Moves groups at random, seldom for the worse and ever less, for so many looks at a request;
 * leaves the best placement seen that fits (Kirkpatrick, Gelatt and Vecchi, Science 220, 1983).
 * What blocks over the capacity cost rises while there are any, and falls else. The set must be
 * timed and linked, and fit; `best` has space for all groups. */
void best_anneal(struct best_set *set, int64_t blocks, uint64_t looks, uint8_t *best);

#endif
