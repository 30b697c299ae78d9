/* Whether a base device is idle long enough for a cache's own work, with requests that arrive as
 * traced: the device serves them in turn, and works for the cache in the gaps between them. It
 * takes its transfers for the cache as equally long, and ends one that it has begun. */
#ifndef TRACEKIT_MODEL_RIVAL_IDLE_H
#define TRACEKIT_MODEL_RIVAL_IDLE_H

#include <stdint.h>

/* All zeros at first. */
struct rival_idle {
  int64_t seen_ns;   /* the last arrival */
  int64_t lag_ps;    /* so long after it the device is busy */
  int64_t behind_ps; /* so much of this with work for the cache, before any request */
  int64_t owed_ps;   /* work for the cache that is to be done */
  int64_t owed;      /* in so many transfers */
};

/* A request arrives, not before the last: the gap before it is used. */
void rival_idle_until(struct rival_idle *idle, int64_t now_ns);

/* A request takes the device for some time; returns how long it waits for the cache's work. */
int64_t rival_idle_serve(struct rival_idle *idle, int64_t base_ps);

/* Adds a transfer for the cache. */
void rival_idle_add(struct rival_idle *idle, int64_t ps);

/* Does the work but for `left` transfers before the next request; returns how long it takes. */
int64_t rival_idle_hurry(struct rival_idle *idle, int64_t left);

#endif
