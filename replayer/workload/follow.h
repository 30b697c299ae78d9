/* Requests of a stream that follow each other: each goes on where the last one ended, resumes where
 * the run before it ended, or begins elsewhere; on pages that were used before, or on others; or
 * goes round in a circle, as a log does.
 *
 * Places are sectors from the start of the stream's region, whose used pages all its streams share.
 * Whether pages are used again comes before where they lie: a request that was to go on, but would
 * come to pages of the other sort, begins elsewhere. Runs begin where there is space for them, so
 * that this is rare. Pages that were to be used again but lie further back than any used one (at
 * the start, when few are) are not used before; as many are used again later that were not to be.
 */
#ifndef TRACEKIT_WORKLOAD_FOLLOW_H
#define TRACEKIT_WORKLOAD_FOLLOW_H

#include <stdint.h>

#include "workload/place.h"
#include "workload/rng.h"
#include "workload/working_set.h"

enum follow_mode {
  FOLLOW_NOT,
  FOLLOW_ON,        /* where the stream's last request ended */
  FOLLOW_RESUMED,   /* where the run before the last one ended */
  FOLLOW_ELSEWHERE, /* used pages by their distance, others by the place's kind */
  FOLLOW_AGAIN,     /* an earlier request once more, with its length; its distance is in requests */
  FOLLOW_CIRCLE     /* where the stream's last one in the circle ended, round and round */
};

/* How the requests of one kind follow. */
struct follow_setup {
  uint32_t mode;
  uint32_t is_used;             /* 1: on pages that were used before; 0: on others */
  struct working_set_span back; /* of used pages where it goes on: others are not meant */
  const double *uses;      /* of used pages elsewhere (use_search_begin); NULL: they do not count */
  uint64_t circle_first;   /* the circle's part of the region; the same for all kinds of a stream */
  uint64_t circle_sectors; /* at least the largest request */
};

/* A stream on the way. */
struct follower {
  struct working_set *working_set; /* NULL: nothing follows */
  uint64_t end_sector;             /* of the last request; WORKING_SET_NOWHERE before the first */
  uint64_t left_sector;            /* where the run before the last one ended; likewise */
  uint64_t circle_sector;          /* where the circle goes on; likewise */
  int debt; /* the run was to be on used pages and is not: 1; or the reverse: -1 */
};

/* A request, and how its run goes on behind it. */
struct follow_request {
  uint64_t sectors;
  uint64_t most_sectors; /* of its kind */
  int is_write;
  const double *uses; /* of its kind */
  struct working_set_ahead ahead;
};

/* Says whether the numbers make sense for requests of up to so many sectors in a region. */
int follow_is_valid(const struct follow_setup *setup, uint64_t most_sectors,
                    uint64_t region_sectors);

/* Starts a stream on a working set, which is not copied. */
void follow_init(struct follower *follower, struct working_set *working_set);

/* Finds where the next request begins, of a kind with such places, and notes its pages as used; one
 * that is an earlier one once more gets its length. Returns 0 or -ENOMEM. */
int follow_next(struct follower *follower, const struct follow_setup *setup,
                const struct place *place, struct rng *rng, struct follow_request *request,
                uint64_t *sector);

#endif
