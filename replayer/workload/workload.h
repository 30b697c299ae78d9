/* A work profile as a stream of requests: the records of a plan, in order of time.
 *
 * A profile has streams with arrivals of their own; a request is of one of its stream's classes,
 * by their shares. A class has an operation, sizes, and places: each run begins at a place that is
 * drawn, and its further requests go on where the one before of the class ended; or they follow the
 * stream's (follow.h). All random numbers of a stream come from two
 * generators of its own, one for its arrivals, so the requests are the same however many are asked
 * for at a time. */
#ifndef TRACEKIT_WORKLOAD_WORKLOAD_H
#define TRACEKIT_WORKLOAD_WORKLOAD_H

#include <stdint.h>

#include "common/export.h"
#include "workload/arrival.h"
#include "workload/dist.h"
#include "workload/follow.h"
#include "workload/place.h"
#include "workload/rng.h"

#define WORKLOAD_STREAMS 1024
#define WORKLOAD_WRITE 1
#define WORKLOAD_FLUSH 2 /* the operation without a place */

/* The record of a plan (replayer/INTERFACE.md); `target` is the number of the stream. */
struct workload_record {
  uint64_t intended_ns;
  uint64_t sector;
  uint64_t request_id;
  uint32_t length_sectors;
  uint8_t operation;
  uint8_t flags;
  uint16_t target;
  uint64_t think_ns;
  uint32_t after;
  uint32_t reserved;
};

struct workload_class {
  double share_to; /* shares of the stream's classes, cumulated to 1 */
  struct dist size;
  struct dist run; /* requests of a run, at least 1 */
  struct follow_setup follow;
  const uint32_t *then; /* of the stream's classes, how often each comes behind this one: dealt like
                         * cards, anew when all are; NULL: by their shares */
  uint32_t has_runs;    /* 0: one run without end, from the start of the region, over and over */
  uint32_t size_unit;   /* sizes are rounded to multiples of so many sectors, at least 1 */
  uint32_t size_least;  /* in sectors, a multiple of the unit */
  uint32_t size_most;   /* the same; at most the sectors of the region */
  uint8_t operation;
  uint8_t flags;
  uint8_t unused[6];
  struct place_setup place;
};

struct workload_stream {
  struct arrival_setup arrival;
  const struct workload_class *classes;
  uint32_t class_count;
  uint32_t unused;
  struct rng_seed arrival_seed;
  struct rng_seed seed;
};

struct workload;

/* Makes the streams, 1 to WORKLOAD_STREAMS; tables that setups point to must outlive them.
 * Returns 0, -EINVAL for a setup that cannot be, or -ENOMEM. */
TK_EXPORT int tk_workload_new(const struct workload_stream *streams, uint32_t count,
                              struct workload **out);

/* Writes up to `count` records with times before `until_ns`. Returns how many, fewer only when the
 * next one is due at `until_ns` or later; or -ENOMEM. */
TK_EXPORT int64_t tk_workload_fill(struct workload *workload, struct workload_record *records,
                                   uint64_t count, int64_t until_ns);

/* Frees the streams; NULL is fine. */
TK_EXPORT void tk_workload_free(struct workload *workload);

#endif
