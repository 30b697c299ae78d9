/* Requests in flight, and how they end in the log. Submitting thread only. */
#ifndef TRACEKIT_PLAY_SLOTS_H
#define TRACEKIT_PLAY_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "play/block_stats.h"
#include "play/completions.h"
#include "play/engine.h"

struct slot {
  _Alignas(64) struct request request;
  uint64_t position;    /* in the run */
  uint64_t intended_ns; /* from the run's start */
  uint16_t lanes;       /* of several submitters, those whose sectors it touches */
  bool is_hurried;      /* what waits for it is due sooner after it than a sleeper wakes */
};

struct slots {
  struct slot *all;
  uint32_t *free; /* stack: depth - in_flight of them */
  uint32_t depth;
};

/* Makes `depth` slots, all free. Returns 0 or -ENOMEM; end it with slots_close in both cases. */
int slots_open(struct slots *slots, uint32_t depth);

/* Logs and counts how a request ended, by 0 or -errno, at `complete_ns` from the run's start. */
void slots_log(const struct slot *slot, int32_t error, uint64_t complete_ns,
               struct completions_lane *log, struct block_stats *stats);

/* Logs and counts a record that is left out: due and left out at times_ns from the run's start. */
void slots_skip(const struct block_record *record, enum completions_status status,
                const uint64_t times_ns[2], struct completions_lane *log,
                struct block_stats *stats);

/* Logs and counts all that is in flight as unknown. Returns the first position among it. */
uint64_t slots_give_up(struct slots *slots, uint32_t in_flight, uint64_t now_ns,
                       struct completions_lane *log, struct block_stats *stats);

void slots_close(struct slots *slots);

#endif
