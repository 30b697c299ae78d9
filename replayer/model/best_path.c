#include "model/best_path.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECTORS 8u      /* of a block */
#define NEAR 8u         /* parts before one from where a moving head is followed exactly */
#define FIRST_REACH 1.0 /* of the way to the target: the first step */
#define PATIENCE 6u     /* rounds without a larger bound until steps are shorter */
#define SHORTER 0.6
#define LEAST_SQUARES 1e-3 /* of steps: groups and path agree */
#define ENOUGH (1 - 1e-7)  /* of the target */
#define KEPT 0.6           /* of a step goes into the next one */

/* A path that is looked for from part to part of a device. */
struct walk {
  struct best_path *path;
  uint32_t first;    /* its first part, from 1 */
  uint32_t part;     /* the one looked at, from 1 */
  uint32_t least_at; /* where the cheapest path ends that is not near; 0: it has no part */
  double least_ps;
  int64_t heads[NEAR]; /* after the parts before, by number */
};

/* The way to a part that is the cheapest so far. */
struct way {
  double ps;
  uint32_t before;
};

static void shorten(struct way *way, double ps, uint32_t before) {
  if (ps < way->ps)
    *way = (struct way){ps, before};
}

static bool has_head(const struct best_path *path) {
  return path->trace->setup.prices.disk.half_turn_ps > 0;
}

/* Leaves a part behind; on a disk only when it is no longer near. */
static void pass(struct walk *walk) {
  const uint32_t late = has_head(walk->path) ? NEAR : 0;
  if (walk->part < walk->first + late)
    return;
  const uint32_t part = walk->part - late;
  if (walk->path->costs_ps[part] < walk->least_ps) {
    walk->least_ps = walk->path->costs_ps[part];
    walk->least_at = part;
  }
}

static void try_near(const struct walk *walk, const struct best_request *request, int64_t sector,
                     struct way *way) {
  for (uint32_t back = 1; back <= NEAR && walk->part >= walk->first + back; back++) {
    const uint32_t before = walk->part - back;
    const int64_t setup_ps =
        best_setup_ps(walk->path->trace, request, walk->heads[before % NEAR], sector);
    shorten(way, walk->path->costs_ps[before] + (double)setup_ps, before);
  }
}

/* Finds the cheapest path that ends with a part. Where it begins the path's other end is known, as
 * parts that end there cost the least. */
static void step_to(struct walk *walk, const struct best_request *request, uint32_t group) {
  struct best_path *path = walk->path;
  const uint32_t part = walk->part;
  const bool is_stuck = request->kind & BEST_STUCK;
  const double least_ps = is_stuck ? 0 : (double)best_least_ps(path->trace, request);
  const double fresh_ps = is_stuck ? 0 : (double)best_fresh_ps(path->trace, request);
  struct way way = {walk->least_ps + least_ps + fresh_ps, walk->least_at};
  if (path->begins[part] > 0) {
    const uint32_t place = path->begins[part];
    shorten(&way, path->place_ps[place] + least_ps, path->place_parts[place]);
  }
  if (group > request->first)
    shorten(&way, path->costs_ps[part - 1], part - 1);
  if (has_head(path)) {
    if (is_stuck)
      for (uint32_t back = 1; back <= NEAR && part >= walk->first + back; back++)
        shorten(&way, path->costs_ps[part - back], part - back);
    else
      try_near(walk, request, best_start(path->trace, request, group), &way);
    walk->heads[part % NEAR] = best_end(path->trace, request, group);
  }
  path->costs_ps[part] = way.ps - (double)path->shares[part];
  path->before[part] = way.before;
  const uint32_t end = path->ends[part];
  if (path->costs_ps[part] < path->place_ps[end]) {
    path->place_ps[end] = path->costs_ps[part];
    path->place_parts[end] = part;
  }
}

/* Finds the cheapest path of a device and notes its parts; returns what it costs. */
static double find_path(struct best_path *path, const struct best_stream *stream, uint32_t first) {
  struct walk walk = {.path = path, .first = first, .part = first};
  for (uint32_t i = 0; i < stream->count; i++) {
    const struct best_request *request = &stream->requests[i];
    for (uint32_t group = request->first; group <= request->last; group++) {
      step_to(&walk, request, group);
      pass(&walk);
      walk.part++;
    }
  }
  for (uint32_t back = 1; back <= NEAR && walk.part >= first + back; back++)
    if (path->costs_ps[walk.part - back] < walk.least_ps) {
      walk.least_ps = path->costs_ps[walk.part - back];
      walk.least_at = walk.part - back;
    }
  for (uint32_t part = walk.least_at; part > 0; part = path->before[part])
    path->is_passed[part] = 1;
  return walk.least_ps;
}

/* Gives groups the shares of their parts, less what NVM's setup takes, of which all groups of a
 * request pay as much. */
static void weigh(struct best_bound *bound, const struct best_path *path,
                  const struct best_stream *stream, uint32_t first) {
  const struct tk_best_prices *prices = &bound->trace->setup.prices;
  uint32_t part = first;
  double sum = 0;
  for (uint32_t i = 0; i < stream->count; i++) {
    const struct best_request *request = &stream->requests[i];
    const int op = request->kind & BEST_WRITE;
    const int64_t setup_ps =
        prices->nvm.sequential_ps[op] + (request->kind & BEST_FUA ? prices->nvm.fua_ps : 0);
    const double paid_ps =
        request->kind & BEST_STUCK ? 0 : (double)setup_ps / (request->last - request->first + 1.0);
    for (uint32_t group = request->first; group <= request->last; group++, part++) {
      sum += (double)path->shares[part];
      bound->summed_ps += fabs((double)path->shares[part]);
      bound->weights[group] += (double)path->shares[part] - paid_ps;
    }
  }
  bound->constant_ps += sum;
}

/* Works out the bound that the shares give, and who is on NVM there. */
static int64_t evaluate(struct best_path *path, int64_t blocks) {
  const struct best_trace *trace = path->trace;
  struct best_bound *bound = &path->bound;
  best_bound_clear(bound);
  bound->rounds = 1;
  bound->constant_ps = (double)trace->fixed_ps;
  for (uint32_t group = 0; group < trace->groups; group++)
    bound->weights[group] = (double)trace->moved_ps[group];
  memset(path->is_passed, 0, trace->pairs + 1);
  for (uint32_t place = 0; place <= path->places; place++)
    path->place_ps[place] = HUGE_VAL;
  uint32_t first = 1;
  for (uint32_t device = 0; device < trace->setup.device_count; device++) {
    const struct best_stream *stream = &trace->streams[device];
    bound->constant_ps += find_path(path, stream, first);
    weigh(bound, path, stream, first);
    for (uint32_t i = 0; i < stream->count; i++)
      first += stream->requests[i].last - stream->requests[i].first + 1;
  }
  best_bound_divide_flushes(bound);
  return best_bound_at(bound, blocks, path->is_in);
}

/* Turns the steps to where path and groups agree more; returns the sum of their squares. */
static double turn(struct best_path *path) {
  const struct best_trace *trace = path->trace;
  double squares = 0;
  uint32_t part = 1;
  for (uint32_t device = 0; device < trace->setup.device_count; device++) {
    const struct best_stream *stream = &trace->streams[device];
    for (uint32_t i = 0; i < stream->count; i++)
      for (uint32_t group = stream->requests[i].first; group <= stream->requests[i].last;
           group++, part++) {
        const float wanted = (float)(1 - path->is_in[group] - path->is_passed[part]);
        path->steps[part] = (float)KEPT * path->steps[part] + wanted;
        squares += (double)(path->steps[part] * path->steps[part]);
      }
  }
  return squares;
}

static void keep_best(struct best_path *path, int64_t bound_ps) {
  path->best_ps = bound_ps;
  path->best.constant_ps = path->bound.constant_ps;
  path->best.rounds = 1;
  memcpy(path->best.flush_ps, path->bound.flush_ps, sizeof path->best.flush_ps);
  memcpy(path->best.weights, path->bound.weights, path->trace->groups * sizeof *path->best.weights);
}

/* Begins with long steps, for another capacity. */
static void begin(struct best_path *path, int64_t blocks) {
  path->blocks = blocks;
  path->reach = FIRST_REACH;
  path->tries = 0;
  path->most_ps = INT64_MIN;
  memset(path->steps, 0, (path->trace->pairs + 1) * sizeof *path->steps);
}

int64_t best_path_tighten(struct best_path *path, int64_t blocks, int64_t target_ps,
                          uint32_t rounds) {
  if (blocks != path->blocks)
    begin(path, blocks);
  path->best_ps = INT64_MIN;
  for (uint32_t round = 0; round < rounds; round++) {
    const int64_t bound_ps = evaluate(path, blocks);
    if (bound_ps > path->best_ps)
      keep_best(path, bound_ps);
    path->tries = bound_ps > path->most_ps ? 0 : path->tries + 1;
    path->most_ps = bound_ps > path->most_ps ? bound_ps : path->most_ps;
    if (path->tries >= PATIENCE) {
      path->reach *= SHORTER;
      path->tries = 0;
    }
    const double squares = turn(path);
    if (squares < LEAST_SQUARES || (double)bound_ps >= ENOUGH * (double)target_ps)
      break;
    const float step = (float)(path->reach * (double)(target_ps - bound_ps) / squares);
    for (uint64_t part = 1; part <= path->trace->pairs; part++)
      path->shares[part] += step * path->steps[part];
  }
  return path->best_ps;
}

/* Where a request's part begins or ends, among 8 places a block of its group's end: parts that end
 * within a block have it for themselves. */
static uint64_t end_slot(const struct best_request *request, uint32_t group) {
  return (uint64_t)group * SECTORS + (group == request->last ? request->tail : 0u);
}

static uint64_t begin_slot(const struct best_trace *trace, const struct best_request *request,
                           uint32_t group) {
  if (group == request->first && request->lead > 0)
    return (uint64_t)group * SECTORS + SECTORS - request->lead;
  const uint32_t block = trace->first_block[group];
  const bool is_next = block > 0 && trace->setup.keys[block - 1] + 1 == trace->setup.keys[block];
  return is_next ? (uint64_t)(group - 1) * SECTORS : UINT64_MAX;
}

/* Numbers the places where parts end. */
static int find_places(struct best_path *path) {
  const struct best_trace *trace = path->trace;
  uint32_t *places = calloc((size_t)trace->groups * SECTORS + 1, sizeof *places);
  if (places == NULL)
    return -ENOMEM;
  for (int pass = 0; pass < 2; pass++) {
    uint32_t part = 1;
    for (uint32_t device = 0; device < trace->setup.device_count; device++)
      for (uint32_t i = 0; i < trace->streams[device].count; i++) {
        const struct best_request *request = &trace->streams[device].requests[i];
        for (uint32_t group = request->first; group <= request->last; group++, part++) {
          const uint64_t end = end_slot(request, group);
          if (places[end] == 0)
            places[end] = ++path->places;
          path->ends[part] = places[end];
          const uint64_t begin = begin_slot(trace, request, group);
          path->begins[part] = begin < UINT64_MAX ? places[begin] : 0;
        }
      }
  }
  free(places);
  return 0;
}

void best_path_reset(struct best_path *path) {
  const struct best_trace *trace = path->trace;
  path->blocks = -1;
  uint32_t part = 1;
  for (uint32_t device = 0; device < trace->setup.device_count; device++) {
    const struct best_stream *stream = &trace->streams[device];
    int64_t head = -1;
    for (uint32_t i = 0; i < stream->count; i++) {
      const struct best_request *request = &stream->requests[i];
      for (uint32_t group = request->first; group <= request->last; group++, part++) {
        const int64_t sector = best_start(trace, request, group);
        const bool is_free = group > request->first || request->kind & BEST_STUCK;
        path->shares[part] = is_free ? 0 : (float)best_setup_ps(trace, request, head, sector);
        head = best_end(trace, request, group);
      }
    }
  }
}

int best_path_init(struct best_path *path, const struct best_trace *trace) {
  const size_t parts = trace->pairs + 1;
  *path = (struct best_path){.trace = trace};
  int error = best_bound_init(&path->bound, trace);
  if (!error)
    error = best_bound_init(&path->best, trace);
  path->shares = malloc(parts * sizeof *path->shares);
  path->steps = malloc(parts * sizeof *path->steps);
  path->costs_ps = malloc(parts * sizeof *path->costs_ps);
  path->before = malloc(parts * sizeof *path->before);
  path->begins = malloc(parts * sizeof *path->begins);
  path->ends = malloc(parts * sizeof *path->ends);
  path->is_passed = malloc(parts);
  path->is_in = malloc(trace->groups + 1ul);
  if (error || path->shares == NULL || path->steps == NULL || path->costs_ps == NULL ||
      path->before == NULL || path->begins == NULL || path->ends == NULL ||
      path->is_passed == NULL || path->is_in == NULL)
    return -ENOMEM;
  error = find_places(path);
  path->place_ps = malloc((path->places + 1ul) * sizeof *path->place_ps);
  path->place_parts = malloc((path->places + 1ul) * sizeof *path->place_parts);
  if (error || path->place_ps == NULL || path->place_parts == NULL)
    return -ENOMEM;
  best_path_reset(path);
  return 0;
}

void best_path_free(struct best_path *path) {
  best_bound_free(&path->bound);
  best_bound_free(&path->best);
  free(path->shares);
  free(path->steps);
  free(path->costs_ps);
  free(path->before);
  free(path->begins);
  free(path->ends);
  free(path->is_passed);
  free(path->is_in);
  free(path->place_ps);
  free(path->place_parts);
}
