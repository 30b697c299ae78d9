#include "model/best_bound.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FORGET 0.9    /* what a round aimed at one capacity leaves of those before */
#define WINDOW 8u     /* requests looked at for a group that keeps another from continuing */
#define ROUNDING 1e-9 /* of sums: the bound is lower by this part */
#define NONE UINT32_MAX

/* Groups one after the other, or of a list. */
struct span {
  const uint32_t *list;
  uint32_t begin;
  uint32_t end;
};

static uint32_t group_at(const struct span *span, uint32_t place) {
  return span->list == NULL ? place : span->list[place];
}

static double blocks_of(const struct best_bound *bound, uint32_t group) {
  return (double)best_blocks_of(bound->trace, group);
}

double best_bound_value(const struct best_bound *bound, uint32_t group) {
  return bound->weights[group] / blocks_of(bound, group);
}

/* Takes an amount from the group that has most a block. */
static void drain(struct best_bound *bound, struct span span, double amount) {
  if (amount <= 0 || span.begin == span.end)
    return;
  uint32_t most = group_at(&span, span.begin);
  for (uint32_t place = span.begin + 1; place < span.end; place++) {
    const uint32_t group = group_at(&span, place);
    if (best_bound_value(bound, group) > best_bound_value(bound, most))
      most = group;
  }
  bound->weights[most] -= amount;
}

/* Moves up to an amount from one group to another until they have as much a block. */
static void level(struct best_bound *bound, uint32_t from, uint32_t to, double most) {
  const double blocks[] = {blocks_of(bound, from), blocks_of(bound, to)};
  const double even =
      (bound->weights[from] * blocks[1] - bound->weights[to] * blocks[0]) / (blocks[0] + blocks[1]);
  const double amount = fmax(0, fmin(even, most));
  bound->weights[from] -= amount;
  bound->weights[to] += amount;
}

/* Returns a group that must be on NVM before request `i` can continue an earlier one: of those that
 * came between, the one with the least weight. NONE: it never can, as that is its own first one. */
static uint32_t find_obstacle(const struct best_bound *bound, const struct best_stream *stream,
                              uint32_t i) {
  const uint32_t between = stream->since[i] - 1;
  const uint32_t first = stream->requests[i].first;
  uint32_t least = stream->requests[i - 1].last;
  for (uint32_t back = 1; back <= between && back <= WINDOW; back++) {
    const struct best_request *other = &stream->requests[i - back];
    if (other->first <= first && first <= other->last)
      return NONE;
    const uint32_t ends[] = {other->first, other->last};
    for (int end = 0; end < 2; end++)
      if (best_bound_value(bound, ends[end]) < best_bound_value(bound, least))
        least = ends[end];
  }
  return least;
}

/* Divides what a request pays for not continuing another, while its first group is on the base
 * device. It can continue one only where that has the group before, too. */
static void position(struct best_bound *bound, const struct best_stream *stream, uint32_t i,
                     bool is_aimed, double amount) {
  const uint32_t first = stream->requests[i].first;
  const uint32_t since = stream->since[i];
  const bool is_first_in = is_aimed && bound->is_in[first];
  const uint32_t obstacle = since > 1 ? find_obstacle(bound, stream, i) : NONE;
  if (since == 0 || (since > 1 && obstacle == NONE)) {
    bound->constant_ps += amount;
    bound->weights[first] += amount;
  } else if (since > 1 && !is_first_in && !bound->is_in[obstacle]) {
    bound->constant_ps += amount;
    bound->weights[first] += amount;
    bound->weights[obstacle] += amount;
  } else if (stream->requests[i].lead == 0) {
    level(bound, first - 1, first, amount);
  }
}

/* Divides what a seek takes beyond the shortest: known while it and the one before stay. */
static void reach(struct best_bound *bound, const struct best_stream *stream, uint32_t i,
                  bool is_aimed, double amount) {
  const uint32_t first = stream->requests[i].first;
  if (amount <= 0 || (is_aimed && bound->is_in[first]))
    return;
  if (i > 0) {
    const uint32_t before = stream->requests[i - 1].last;
    if (is_aimed && bound->is_in[before])
      return;
    bound->weights[before] += amount;
  }
  bound->constant_ps += amount;
  bound->weights[first] += amount;
}

/* Divides what depends on the request before, on the base device; `least_ps` is always taken, and
 * `fresh_ps` more at least where nothing is continued. */
static void order(struct best_bound *bound, const struct best_stream *stream, uint32_t i,
                  bool is_aimed, double least_ps, double fresh_ps) {
  position(bound, stream, i, is_aimed, fresh_ps);
  if (bound->trace->setup.prices.disk.half_turn_ps == 0)
    return;
  const struct best_request *request = &stream->requests[i];
  const struct best_request *before = i > 0 ? request - 1 : NULL;
  const int64_t head = before == NULL ? -1 : best_end(bound->trace, before, before->last);
  const int64_t start = best_start(bound->trace, request, request->first);
  const double known_ps = (double)best_setup_ps(bound->trace, request, head, start);
  reach(bound, stream, i, is_aimed, known_ps - least_ps - fresh_ps);
}

/* On the base device a request begins with its first group, and anew after each that is on NVM. */
static void divide_request(struct best_bound *bound, const struct best_stream *stream, uint32_t i,
                           bool is_aimed) {
  const struct tk_best_prices *prices = &bound->trace->setup.prices;
  const struct best_request *request = &stream->requests[i];
  const int op = request->kind & BEST_WRITE;
  const bool is_fua = request->kind & BEST_FUA;
  if (request->kind & BEST_STUCK)
    return;
  const double least_ps =
      (double)(prices->base.sequential_ps[op] + (is_fua ? prices->base.fua_ps : 0));
  const double fresh_ps =
      (double)(prices->disk.half_turn_ps > 0
                   ? prices->disk.half_turn_ps
                   : prices->base.latency_ps[op] - prices->base.sequential_ps[op]);
  const double nvm_ps = (double)(prices->nvm.sequential_ps[op] + (is_fua ? prices->nvm.fua_ps : 0));
  bound->constant_ps += least_ps;
  bound->weights[request->first] += least_ps;
  if (bound->trace->is_ordered)
    order(bound, stream, i, is_aimed, least_ps, fresh_ps);
  for (uint32_t group = request->first; group < request->last; group++)
    level(bound, group, group + 1, least_ps + fresh_ps);
  drain(bound, (struct span){NULL, request->first, request->last + 1}, nvm_ps);
}

/* A flush takes what each device takes that has blocks of its role; what the base device's saves
 * once all are gone is not divided but tried, see best_bound_read. */
static void divide_flushes(struct best_bound *bound) {
  const struct best_trace *trace = bound->trace;
  for (int role = 0; role < TK_ROLES; role++) {
    const double count = (double)trace->flushes[role];
    const struct span span = {trace->by_role, trace->role_begin[role], trace->role_begin[role + 1]};
    bound->constant_ps += count * (double)trace->setup.prices.flush_ps[0];
    drain(bound, span, count * (double)trace->setup.prices.flush_ps[1]);
  }
}

static void divide(struct best_bound *bound, bool is_aimed) {
  const struct best_trace *trace = bound->trace;
  bound->rounds += 1;
  bound->constant_ps += (double)trace->fixed_ps;
  for (uint32_t group = 0; group < trace->groups; group++)
    bound->weights[group] += (double)trace->moved_ps[group];
  for (uint32_t device = 0; device < trace->setup.device_count; device++)
    for (uint32_t i = 0; i < trace->streams[device].count; i++)
      divide_request(bound, &trace->streams[device], i, is_aimed);
  divide_flushes(bound);
}

static int compare(const void *left, const void *right) {
  const struct best_value *a = left;
  const struct best_value *b = right;
  if (a->value != b->value)
    return a->value < b->value ? 1 : -1;
  return a->group < b->group ? -1 : a->group > b->group;
}

void best_values_sort(struct best_value *values, uint32_t count) {
  qsort(values, count, sizeof *values, compare);
}

static void sort_all(struct best_bound *bound) {
  for (uint32_t group = 0; group < bound->trace->groups; group++)
    bound->values[group] = (struct best_value){best_bound_value(bound, group), group};
  best_values_sort(bound->values, bound->trace->groups);
}

static int64_t floor_ps(const struct best_bound *bound, double saved) {
  const double ps = (bound->constant_ps - saved) / bound->rounds;
  const double slack = bound->constant_ps / bound->rounds * ROUNDING;
  return ps > slack ? (int64_t)(ps - slack) : 0;
}

static uint32_t role_of(const struct best_bound *bound, uint32_t group) {
  return bound->trace->setup.roles[bound->trace->first_block[group]];
}

/* Whether roles (a bit each) can be wholly on NVM, and it matters that they are. */
static bool is_case(const struct best_bound *bound, uint32_t whole, int64_t blocks) {
  for (int role = 0; role < TK_ROLES; role++) {
    if (!(whole >> role & 1u))
      continue;
    if (bound->trace->flushes[role] == 0 || bound->trace->role_blocks[role] == 0)
      return false;
    blocks -= bound->trace->role_blocks[role];
  }
  return blocks >= 0;
}

/* What these roles save at most if they are wholly on NVM, with the largest weights beside them;
 * unless `is_in` is NULL, notes which groups those are. */
static double saved_ps(const struct best_bound *bound, uint32_t whole, int64_t blocks,
                       uint8_t *is_in) {
  const struct best_trace *trace = bound->trace;
  double saved = 0;
  double left = (double)blocks;
  for (uint32_t role = 0; role < TK_ROLES; role++) {
    if (!(whole >> role & 1u))
      continue;
    saved += bound->rounds * (double)trace->flushes[role] * (double)trace->setup.prices.flush_ps[0];
    left -= (double)trace->role_blocks[role];
    for (uint32_t i = trace->role_begin[role]; i < trace->role_begin[role + 1]; i++) {
      saved += bound->weights[trace->by_role[i]];
      if (is_in != NULL)
        is_in[trace->by_role[i]] = 1;
    }
  }
  for (uint32_t place = 0; place < trace->groups && left > 0; place++) {
    const struct best_value *one = &bound->values[place];
    if (one->value <= 0)
      break;
    if (whole >> role_of(bound, one->group) & 1u)
      continue;
    const double taken = fmin(left, blocks_of(bound, one->group));
    saved += taken * one->value;
    left -= taken;
    if (is_in != NULL)
      is_in[one->group] = 1;
  }
  return saved;
}

/* Returns the roles that are wholly on NVM in the case that saves most, of sorted weights. */
static uint32_t best_case(const struct best_bound *bound, int64_t blocks, double *saved) {
  uint32_t best = 0;
  *saved = saved_ps(bound, 0, blocks, NULL);
  for (uint32_t whole = 1; whole < 1u << TK_ROLES; whole++) {
    const double ps = is_case(bound, whole, blocks) ? saved_ps(bound, whole, blocks, NULL) : 0;
    if (ps > *saved) {
      best = whole;
      *saved = ps;
    }
  }
  return best;
}

void best_bound_read(struct best_bound *bound, const int64_t *blocks, uint64_t count,
                     int64_t *bound_ps) {
  sort_all(bound);
  for (uint64_t i = 0; i < count; i++) {
    double saved;
    (void)best_case(bound, blocks[i], &saved);
    bound_ps[i] = bound->rounds > 0 ? floor_ps(bound, saved) : 0;
  }
}

/* Notes which groups have the largest weights that fit; returns the bound. */
static int64_t aim(struct best_bound *bound, int64_t blocks) {
  double saved;
  sort_all(bound);
  const uint32_t whole = best_case(bound, blocks, &saved);
  memset(bound->is_in, 0, bound->trace->groups);
  (void)saved_ps(bound, whole, blocks, bound->is_in);
  return bound->rounds > 0 ? floor_ps(bound, saved) : 0;
}

int64_t best_bound_weigh(struct best_bound *bound, int64_t blocks, uint32_t rounds) {
  int64_t most = 0;
  memset(bound->is_in, 0, bound->trace->groups);
  for (uint32_t round = 0; blocks < 0 && round < rounds; round++)
    divide(bound, false);
  for (uint32_t round = 0; blocks >= 0 && round <= rounds; round++) {
    const int64_t bound_ps = aim(bound, blocks);
    most = bound_ps > most ? bound_ps : most;
    if (round == rounds)
      break;
    for (uint32_t group = 0; group < bound->trace->groups; group++)
      bound->weights[group] *= FORGET;
    bound->constant_ps *= FORGET;
    bound->rounds *= FORGET;
    divide(bound, true);
  }
  return most;
}

int best_bound_init(struct best_bound *bound, const struct best_trace *trace) {
  const size_t groups = trace->groups + 1ul;
  *bound = (struct best_bound){.trace = trace};
  bound->weights = calloc(groups, sizeof *bound->weights);
  bound->values = calloc(groups, sizeof *bound->values);
  bound->is_in = calloc(groups, sizeof *bound->is_in);
  const bool is_complete = bound->weights != NULL && bound->values != NULL && bound->is_in != NULL;
  return is_complete ? 0 : -ENOMEM;
}

void best_bound_clear(struct best_bound *bound) {
  memset(bound->weights, 0, bound->trace->groups * sizeof *bound->weights);
  bound->constant_ps = 0;
  bound->rounds = 0;
}

void best_bound_free(struct best_bound *bound) {
  free(bound->weights);
  free(bound->values);
  free(bound->is_in);
}
