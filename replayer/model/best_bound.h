/* What groups save at most: the weights of best_placement.h. */
#ifndef TRACEKIT_MODEL_BEST_BOUND_H
#define TRACEKIT_MODEL_BEST_BOUND_H

#include <stdint.h>

#include "model/best_trace.h"

/* A group and what it saves a block. */
struct best_value {
  double value;
  uint32_t group;
};

/* Weights are sums over rounds: any mean of valid ones is valid. */
struct best_bound {
  const struct best_trace *trace;
  double *weights;           /* by group */
  struct best_value *values; /* space for all groups */
  double flush_ps[TK_ROLES]; /* saved by flushes of a role that is wholly on NVM, beside weights */
  double constant_ps;        /* of the time on the base device, as far as it is counted */
  double summed_ps;          /* what else was added, on which rounding depends */
  double rounds;
};

/* What a request's setup on the base device takes in any case. */
static inline int64_t best_least_ps(const struct best_trace *trace,
                                    const struct best_request *request) {
  const struct tk_placement_cost *base = &trace->setup.prices.base;
  return base->sequential_ps[request->kind & BEST_WRITE] +
         (request->kind & BEST_FUA ? base->fua_ps : 0);
}

/* And what it takes more, at least, where it continues nothing. */
static inline int64_t best_fresh_ps(const struct best_trace *trace,
                                    const struct best_request *request) {
  const struct tk_best_prices *prices = &trace->setup.prices;
  const int op = request->kind & BEST_WRITE;
  return prices->disk.half_turn_ps > 0
             ? prices->disk.half_turn_ps
             : prices->base.latency_ps[op] - prices->base.sequential_ps[op];
}

/* Makes weights of no round. Returns 0 or -ENOMEM; best_bound_free in both cases. */
int best_bound_init(struct best_bound *bound, const struct best_trace *trace);

/* Forgets all rounds. */
void best_bound_clear(struct best_bound *bound);

/* Divides savings, for so many rounds. */
void best_bound_weigh(struct best_bound *bound, uint32_t rounds);

/* Divides what flushes cost: what each device takes that has blocks of their role. What the base
 * device's saves once all are gone is not divided but tried, see best_bound_at. */
void best_bound_divide_flushes(struct best_bound *bound);

/* A part of it: flushes that take less where they find nothing. What one that finds writes takes
 * more on the base device is saved only when all groups written since the flush before have left,
 * so any of them may get it; on NVM it is taken from one of its role that was written. */
void best_bound_divide_written(struct best_bound *bound);

/* Returns the bound of a capacity, which is below 0 while weights are far from it; unless `is_in`
 * (by group) is NULL, notes there which groups' weights are counted as saved. */
int64_t best_bound_at(struct best_bound *bound, int64_t blocks, uint8_t *is_in);

/* Returns the weight a block. */
double best_bound_value(const struct best_bound *bound, uint32_t group);

/* Orders values, which come by rising group, from the largest down; of equals the lower group comes
 * first. */
void best_values_sort(struct best_value *values, uint32_t count);

/* Frees what it holds. */
void best_bound_free(struct best_bound *bound);

#endif
