/* Places that were used before, by how often they were: a stack (recency.h) for each power of two.
 *
 * The uses of a place say how popular it is. A load that comes back to places is told apart from
 * another with the same distances by which of those so far back it takes: one that was used once,
 * or one of the few that are used all the time. */
#ifndef TRACEKIT_WORKLOAD_USE_CLASSES_H
#define TRACEKIT_WORKLOAD_USE_CLASSES_H

#include <stdint.h>

#include "workload/recency.h"
#include "workload/rng.h"

#define USE_CLASSES 16U /* of no use, 1, 2 and 3, 4 to 7, and so on; the last has all above */
#define USE_BANDS 14U   /* of distances of 1 to 3 places, 4 to 15, and so on; likewise */

struct use_classes {
  struct recency *places[USE_CLASSES]; /* NULL: no place was of the class yet */
  uint64_t most;                       /* places of each */
};

/* Pages and requests by how often each was read, [0], and written, [1]. */
struct popularity {
  struct use_classes pages[2];
  struct use_classes requests[2];
};

/* A search for a place of one class, the nearest to a distance first, then of lower classes and of
 * higher ones. */
struct use_search {
  const struct use_classes *classes;
  const struct recency *all; /* places, which distances are counted in */
  uint64_t back;             /* asked for */
  uint64_t older; /* in the class the next one that is farther or as far; its count: none */
  uint64_t newer; /* 1 more than the next one that is less far; 0: none */
  uint32_t wanted;
  uint32_t class;
  uint32_t left; /* places of the class that are looked at */
};

/* Makes the stacks, of at most so many places each, 1 to 2^26. Returns 0 or -ENOMEM. */
int popularity_new(uint64_t most, struct popularity **out);

/* Frees the stacks; NULL is fine. */
void popularity_free(struct popularity *popularity);

/* Makes a place the last used one, that had been used so often and is now. Returns 0 or -ENOMEM. */
int use_classes_note(struct use_classes *classes, uint64_t place, uint32_t before, uint32_t now);

/* Begins a search for a place so far back, of a class drawn by a table of USE_BANDS rows of
 * USE_CLASSES shares, each cumulated; it finds nothing where the row of the distance is of zeros.
 */
struct use_search use_search_begin(const struct use_classes *classes, const struct recency *all,
                                   uint64_t back, const double *shares, struct rng *rng);

/* Returns the next place; RECENCY_NOWHERE at the end. None is four times as far back as asked, or a
 * fourth as far. */
uint64_t use_search_next(struct use_search *search);

#endif
