/* How long before its time a request is handed over: as long as the kernel took to queue half of
 * the last ones. */
#ifndef TRACEKIT_PLAY_LEAD_H
#define TRACEKIT_PLAY_LEAD_H

#include <stdint.h>

#define LEAD_WINDOW 63U /* requests of which the median counts */
#define LEAD_FEWEST 15U /* of which a median is taken */
#define LEAD_MOST_NS 10000000U

/* What leads were taken from requests. */
struct lead_range {
  uint64_t requests; /* that were followed */
  uint64_t least_ns; /* 0, as the other one, where they were too few */
  uint64_t most_ns;
};

struct lead {
  uint64_t ns; /* as it is now */
  struct lead_range range;
  uint32_t count;                /* of the window */
  uint32_t next;                 /* place of the oldest in a full window, of the next in another */
  uint64_t lags_ns[LEAD_WINDOW]; /* from submission to queueing, in turn */
  uint64_t sorted_ns[LEAD_WINDOW]; /* the same, ascending */
};

/* Adds what another thread took. */
void lead_range_merge(struct lead_range *range, const struct lead_range *other);

/* Begins with what is known before. */
void lead_open(struct lead *lead, uint64_t first_ns);

/* Follows `requests` requests that were submitted together at `submit_ns`, by when the kernel
 * queued something since, `count` times of one clock, ascending. Each is a request's own where
 * there are as many; else only the first one is known to be the first request's. */
void lead_follow(struct lead *lead, uint64_t submit_ns, uint32_t requests,
                 const uint64_t *queued_ns, uint32_t count);

#endif
