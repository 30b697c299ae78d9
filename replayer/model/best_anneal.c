#include "model/best_anneal.h"

#include <math.h>
#include <string.h>

#include "common/hash.h"
#include "model/best_bound.h"
#include "model/best_search.h"

#define MOST 64u     /* groups that one step may move */
#define WINDOW 32u   /* requests that may be between two */
#define HOT 0.3      /* of the setup of a request on the base device: what is lost at first */
#define COLD 0.02    /* and at last */
#define PARTS 256u   /* of the work, after each of which heat and balance change */
#define DEARER 1.05  /* by this factor, where the set is larger than the capacity */
#define CHEAPER 0.97 /* and where it is not */
#define ENOUGH 256u  /* looks a part of a request, to cool down once */
#define MOST_RUNS 8u
#define SAMPLE 64u /* groups that are looked at for what a block is worth */

/* A set that is moved at random. */
struct anneal {
  struct best_set *set;
  int64_t blocks; /* the capacity */
  double over_ps; /* what a block over it costs */
  double heat_ps; /* what a step for the worse loses, about */
  uint64_t state; /* of the random numbers */
};

/* Steele, Lea and Flood's splitmix64 (OOPSLA 2014). */
static uint64_t draw(struct anneal *anneal) {
  return hash_mix(anneal->state += UINT64_C(0x9e3779b97f4a7c15));
}

static uint32_t below(struct anneal *anneal, uint64_t end) {
  return (uint32_t)((draw(anneal) >> 32) * end >> 32);
}

static double unit(struct anneal *anneal) { return (double)((draw(anneal) >> 11) + 1) * 0x1p-53; }

static double cost_of(const struct anneal *anneal) {
  const int64_t over = anneal->set->blocks - anneal->blocks;
  return (double)anneal->set->elapsed_ps + (over > 0 ? (double)over * anneal->over_ps : 0);
}

static void move(struct anneal *anneal, uint32_t group, bool to) {
  if (anneal->set->on[group] != to && anneal->set->moved_count < MOST)
    (void)best_set_toggle(anneal->set, group);
}

/* Moves neighbours of a group that are where it is, as far as the same device goes. */
static void move_run(struct anneal *anneal, uint32_t group, uint32_t length) {
  const struct best_trace *trace = anneal->set->trace;
  const bool to = !anneal->set->on[group];
  const uint32_t stream = trace->stream_of[group];
  for (uint32_t i = 0; i < length && group + i < trace->groups; i++) {
    if (trace->stream_of[group + i] != stream)
      break;
    move(anneal, group + i, to);
  }
}

/* Moves to NVM what came between a request and the one that it could continue. */
static void move_between(struct anneal *anneal, const struct best_stream *stream, uint32_t i) {
  const uint32_t since = stream->since[i];
  for (uint32_t back = 1; back < since && back < WINDOW; back++) {
    const struct best_request *other = &stream->requests[i - back];
    for (uint32_t group = other->first; group <= other->last; group++)
      if (group != stream->requests[i].first)
        move(anneal, group, true);
  }
}

/* Moves what requests one after the other touch. */
static void move_time(struct anneal *anneal, const struct best_stream *stream, uint32_t i,
                      uint32_t length) {
  const bool to = !anneal->set->on[stream->requests[i].first];
  for (uint32_t end = i + length; i < end && i < stream->count; i++)
    for (uint32_t group = stream->requests[i].first; group <= stream->requests[i].last; group++)
      move(anneal, group, to);
}

static void step(struct anneal *anneal) {
  const struct best_trace *trace = anneal->set->trace;
  const uint32_t group = below(anneal, trace->groups);
  const uint32_t kind = below(anneal, 16);
  const struct best_stream *stream = &trace->streams[trace->stream_of[group]];
  if (kind < 7 || stream->count == 0)
    move(anneal, group, !anneal->set->on[group]);
  else if (kind < 11)
    move_run(anneal, group, 2u << below(anneal, 5));
  else if (kind < 14)
    move_between(anneal, stream, below(anneal, stream->count));
  else
    move_time(anneal, stream, below(anneal, stream->count), 1u << below(anneal, 5));
}

/* What a block is worth where the set is full: about what the least useful groups there save. */
static double price_of(struct anneal *anneal) {
  struct best_set *set = anneal->set;
  struct best_value losses[SAMPLE];
  uint32_t count = 0;
  for (uint32_t tries = 0; tries < SAMPLE; tries++) {
    const uint32_t group = below(anneal, set->trace->groups);
    if (!set->on[group])
      continue;
    const double loss_ps = (double)best_set_toggle(set, group);
    best_set_restore(set);
    losses[count++] = (struct best_value){loss_ps / best_blocks_of(set->trace, group), group};
  }
  best_values_sort(losses, count);
  const double worth_ps = count > 0 ? losses[count * 3 / 4].value : 0;
  return fmax(worth_ps, (double)set->elapsed_ps / ((double)anneal->blocks + 1));
}

/* What a block over the capacity costs changes until the set is about as large as the capacity. */
static void balance(struct anneal *anneal) {
  anneal->over_ps *= anneal->set->blocks > anneal->blocks ? DEARER : CHEAPER;
}

/* Moves at random, and back unless that is for the better or by chance. */
static void try_step(struct anneal *anneal) {
  const double before = cost_of(anneal);
  step(anneal);
  const double change = cost_of(anneal) - before;
  if (change > 0 && change > -anneal->heat_ps * log(unit(anneal)))
    best_set_restore(anneal->set);
  else
    best_set_keep(anneal->set);
}

/* Cools down once from where the set is, with so many looks; `best` gets what took least, which
 * took `best_ps`, and the time of that is returned. */
static int64_t cool(struct anneal *anneal, uint64_t looks, int64_t best_ps, uint8_t *best) {
  struct best_set *set = anneal->set;
  const struct best_request any = {0};
  const double unit_ps =
      (double)(best_least_ps(set->trace, &any) + best_fresh_ps(set->trace, &any));
  const uint64_t begin = set->looks;
  uint64_t part = 0;
  anneal->over_ps = price_of(anneal);
  anneal->heat_ps = unit_ps * HOT;
  for (uint64_t tries = 0; set->looks < begin + looks && tries < looks; tries++) {
    const uint64_t now = (set->looks - begin) * PARTS / looks;
    if (now > part) {
      part = now;
      balance(anneal);
      anneal->heat_ps = unit_ps * HOT * pow(COLD / HOT, (double)part / PARTS);
    }
    try_step(anneal);
    if (set->blocks <= anneal->blocks && set->elapsed_ps < best_ps) {
      best_ps = set->elapsed_ps;
      memcpy(best, set->on, set->trace->groups);
    }
  }
  return best_ps;
}

void best_anneal(struct best_set *set, int64_t blocks, uint64_t looks, uint8_t *best) {
  const struct best_trace *trace = set->trace;
  struct anneal anneal = {.set = set, .blocks = blocks, .state = 1};
  const uint64_t enough = ENOUGH * (trace->pairs + 1);
  const uint64_t runs = looks < enough               ? 1
                        : looks < MOST_RUNS * enough ? looks / enough
                                                     : MOST_RUNS;
  int64_t best_ps = set->elapsed_ps;
  if (trace->groups == 0)
    return;
  memcpy(best, set->on, trace->groups);
  for (uint64_t run = 0; run < runs; run++) {
    best_ps = cool(&anneal, looks / runs, best_ps, best);
    memcpy(set->on, best, trace->groups);
    best_set_time(set);
  }
}
