/* A trace as the best placement looks at it: requests of whole groups of blocks, by device. */
#ifndef TRACEKIT_MODEL_BEST_TRACE_H
#define TRACEKIT_MODEL_BEST_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/best_placement.h"
#include "model/block_map.h"
#include "model/row_reader.h"

enum { BEST_WRITE = 1, BEST_FUA = 2, BEST_STUCK = 4 };

/* A request; stuck is one of which some block is not among the keys, so that it costs its setup
 * on the base device wherever the others are. */
struct best_request {
  uint32_t first; /* group (while reading: block) */
  uint32_t last;
  uint8_t lead;   /* sectors of the first block that are not its own */
  uint8_t tail;   /* and of the last */
  uint8_t kind;   /* BEST_* */
  uint32_t epoch; /* flushes of the trace before it */
};

struct best_flush {
  uint32_t device;
  uint8_t role;
};

/* A write with a block that is not among the keys, which always leaves its base device something to
 * flush. */
struct best_stuck {
  uint32_t device;
  uint32_t epoch;
};

/* The requests of one traced device. */
struct best_stream {
  struct best_request *requests;
  uint32_t *since; /* ordered: how many requests ago one ended where this one begins; 0: none did */
  uint32_t count;
  uint32_t space;
  uint64_t offset; /* of its first request among all */
};

struct best_trace {
  struct tk_best_setup setup;
  struct best_stream *streams; /* one a traced device */
  uint32_t *first_block;       /* by group, and one more: the number of blocks */
  uint32_t *stream_of;         /* by group */
  uint32_t *by_role;           /* groups by role */
  uint32_t role_begin[TK_ROLES + 1];
  int64_t role_blocks[TK_ROLES];
  int64_t *moved_ps; /* by group: saved transfer when it moves */
  uint32_t groups;
  uint64_t pairs;
  uint64_t requests;
  int64_t fixed_ps;              /* transfers of all requests on the base device */
  struct best_flush *flush_list; /* in their order */
  struct best_stuck *stuck;      /* in the order of requests, once an epoch and device at most */
  uint32_t flush_count;
  uint32_t flush_space;
  uint32_t stuck_count;
  uint32_t stuck_space;
  int64_t flushes[TK_ROLES];
  bool has_empty;  /* a flush costs less where it finds nothing */
  bool is_ordered; /* a request's setup on the base device depends on the one before */
};

/* Notes a flush, and a stuck write. Return 0 or -ENOMEM. */
int best_trace_flush(struct best_trace *trace, uint32_t device, uint8_t role);
int best_trace_stuck(struct best_trace *trace, uint32_t device);

/* Makes the groups of what was read, cut where `starts` has a bit (by block). Returns 0 or -ENOMEM.
 */
int best_trace_group(struct best_trace *trace, uint64_t *starts);

/* Works out what depends on the prices. */
void best_trace_price(struct best_trace *trace);

/* Brings closer, at request `i`, what is known of the first group of a later one and, in an array
 * of `size` bytes a group, what will be added to it: groups come in any order. */
void best_look_ahead(const struct best_trace *trace, const struct best_stream *stream, uint32_t i,
                     const void *values, size_t size);

/* Frees all. */
void best_trace_free(struct best_trace *trace);

static inline uint32_t best_blocks_of(const struct best_trace *trace, uint32_t group) {
  return trace->first_block[group + 1] - trace->first_block[group];
}

/* Where the part of a request in a group begins, in sectors of its device's keys. */
static inline int64_t best_start(const struct best_trace *trace, const struct best_request *request,
                                 uint32_t group) {
  return trace->setup.keys[trace->first_block[group]] * 8 +
         (group == request->first ? request->lead : 0);
}

static inline int64_t best_end(const struct best_trace *trace, const struct best_request *request,
                               uint32_t group) {
  return (trace->setup.keys[trace->first_block[group + 1] - 1] + 1) * 8 -
         (group == request->last ? request->tail : 0);
}

/* What the base device takes before the transfer, from a head at `head` (-1: unknown). */
static inline int64_t best_setup_ps(const struct best_trace *trace,
                                    const struct best_request *request, int64_t head,
                                    int64_t sector) {
  const struct tk_best_prices *prices = &trace->setup.prices;
  const int op = request->kind & BEST_WRITE;
  const int64_t fua_ps = request->kind & BEST_FUA ? prices->base.fua_ps : 0;
  if (prices->disk.half_turn_ps > 0)
    return fua_ps + prices->base.sequential_ps[op] +
           spindle_position_ps(&prices->disk, head, sector, op);
  return fua_ps + (head == sector ? prices->base.sequential_ps[op] : prices->base.latency_ps[op]);
}

#endif
