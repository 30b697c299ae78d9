#include "model/best_bound.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 8u     /* requests looked at for a group that keeps another from continuing */
#define ROUNDING 1e-9 /* of sums: the bound is lower by this part */
#define LEAST_PS (-0x1p62)
#define NONE UINT32_MAX
#define DIGIT_BITS 8u
#define DIGITS (1u << DIGIT_BITS)
#define FEW 256u /* values, for which counting digits does not pay */

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
                     double amount) {
  const uint32_t first = stream->requests[i].first;
  const uint32_t since = stream->since[i];
  if (since == 1) {
    if (stream->requests[i].lead == 0)
      level(bound, first - 1, first, amount);
    return;
  }
  const uint32_t obstacle = since > 1 ? find_obstacle(bound, stream, i) : NONE;
  bound->constant_ps += amount;
  bound->weights[first] += amount;
  if (obstacle != NONE)
    bound->weights[obstacle] += amount;
}

/* Divides what a seek takes beyond the shortest: known while it and the one before stay. */
static void reach(struct best_bound *bound, const struct best_stream *stream, uint32_t i,
                  double amount) {
  if (amount <= 0)
    return;
  if (i > 0)
    bound->weights[stream->requests[i - 1].last] += amount;
  bound->constant_ps += amount;
  bound->weights[stream->requests[i].first] += amount;
}

/* Divides what depends on the request before, on the base device; `least_ps` is always taken, and
 * `fresh_ps` more at least where nothing is continued. */
static void order(struct best_bound *bound, const struct best_stream *stream, uint32_t i,
                  double least_ps, double fresh_ps) {
  position(bound, stream, i, fresh_ps);
  if (bound->trace->setup.prices.disk.half_turn_ps == 0)
    return;
  const struct best_request *request = &stream->requests[i];
  const struct best_request *before = i > 0 ? request - 1 : NULL;
  const int64_t head = before == NULL ? -1 : best_end(bound->trace, before, before->last);
  const int64_t start = best_start(bound->trace, request, request->first);
  const double known_ps = (double)best_setup_ps(bound->trace, request, head, start);
  reach(bound, stream, i, known_ps - least_ps - fresh_ps);
}

/* On the base device a request begins with its first group, and anew after each that is on NVM. */
static void divide_request(struct best_bound *bound, const struct best_stream *stream, uint32_t i) {
  const struct tk_best_prices *prices = &bound->trace->setup.prices;
  const struct best_request *request = &stream->requests[i];
  const int op = request->kind & BEST_WRITE;
  const bool is_fua = request->kind & BEST_FUA;
  if (request->kind & BEST_STUCK)
    return;
  const double least_ps = (double)best_least_ps(bound->trace, request);
  const double fresh_ps = (double)best_fresh_ps(bound->trace, request);
  const double nvm_ps = (double)(prices->nvm.sequential_ps[op] + (is_fua ? prices->nvm.fua_ps : 0));
  bound->constant_ps += least_ps;
  bound->weights[request->first] += least_ps;
  if (bound->trace->is_ordered)
    order(bound, stream, i, least_ps, fresh_ps);
  for (uint32_t group = request->first; group < request->last; group++)
    level(bound, group, group + 1, least_ps + fresh_ps);
  drain(bound, (struct span){NULL, request->first, request->last + 1}, nvm_ps);
}

void best_bound_divide_flushes(struct best_bound *bound) {
  const struct best_trace *trace = bound->trace;
  const int64_t (*ps)[TK_FLUSHES] = trace->setup.prices.flush_ps;
  for (int role = 0; role < TK_ROLES; role++) {
    const double count = (double)trace->flushes[role];
    const struct span span = {trace->by_role, trace->role_begin[role], trace->role_begin[role + 1]};
    drain(bound, span, count * (double)ps[1][TK_FLUSH_EMPTY]);
    if (trace->has_empty)
      continue;
    bound->constant_ps += count * (double)ps[0][TK_FLUSH_EMPTY];
    bound->flush_ps[role] += count * (double)ps[0][TK_FLUSH_EMPTY];
  }
  if (trace->has_empty)
    best_bound_divide_written(bound);
}

static void divide(struct best_bound *bound) {
  const struct best_trace *trace = bound->trace;
  bound->rounds += 1;
  bound->constant_ps += (double)trace->fixed_ps;
  for (uint32_t group = 0; group < trace->groups; group++)
    bound->weights[group] += (double)trace->moved_ps[group];
  for (uint32_t device = 0; device < trace->setup.device_count; device++)
    for (uint32_t i = 0; i < trace->streams[device].count; i++) {
      best_look_ahead(trace, &trace->streams[device], i, bound->weights, sizeof *bound->weights);
      divide_request(bound, &trace->streams[device], i);
    }
  best_bound_divide_flushes(bound);
}

static int compare(const void *left, const void *right) {
  const struct best_value *a = left;
  const struct best_value *b = right;
  if (a->value != b->value)
    return a->value < b->value ? 1 : -1;
  return a->group < b->group ? -1 : a->group > b->group;
}

/* A number that is smaller, the larger a value is. */
static uint64_t falling(double value) {
  uint64_t bits;
  const double number = value + 0.0; /* the two zeros are equal */
  memcpy(&bits, &number, sizeof bits);
  return bits >> 63 ? bits : ~bits ^ (UINT64_C(1) << 63);
}

/* Sorts by a digit; values that have the same one stay as they are. */
static void sort_digit(const struct best_value *from, struct best_value *to, uint32_t count,
                       uint32_t digit) {
  uint32_t places[DIGITS + 1] = {0};
  for (uint32_t i = 0; i < count; i++)
    places[(falling(from[i].value) >> digit & (DIGITS - 1)) + 1]++;
  for (uint32_t i = 0; i < DIGITS; i++)
    places[i + 1] += places[i];
  for (uint32_t i = 0; i < count; i++)
    to[places[falling(from[i].value) >> digit & (DIGITS - 1)]++] = from[i];
}

void best_values_sort(struct best_value *values, uint32_t count) {
  struct best_value *space = count < FEW ? NULL : malloc(count * sizeof *space);
  if (space == NULL) {
    qsort(values, count, sizeof *values, compare);
    return;
  }
  for (uint32_t digit = 0; digit < 64; digit += 2 * DIGIT_BITS) {
    sort_digit(values, space, count, digit);
    sort_digit(space, values, count, digit + DIGIT_BITS);
  }
  free(space);
}

static int64_t floor_ps(const struct best_bound *bound, double saved) {
  const double ps = (bound->constant_ps - saved) / bound->rounds;
  const double slack = (bound->constant_ps + bound->summed_ps) / bound->rounds * ROUNDING;
  return (int64_t)fmax(ps - slack, LEAST_PS);
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

/* Sorts values such that those above a pivot come first and those equal to it next; writes where
 * each of the two ends. */
static void part_at(struct best_value *values, uint32_t count, double pivot, uint32_t ends[2]) {
  uint32_t above = 0;
  uint32_t below = count;
  for (uint32_t i = 0; i < below;) {
    const struct best_value one = values[i];
    if (one.value > pivot) {
      values[i++] = values[above];
      values[above++] = one;
    } else if (one.value < pivot) {
      values[i] = values[--below];
      values[below] = one;
    } else {
      i++;
    }
  }
  ends[0] = above;
  ends[1] = below;
}

static double middle_of(const struct best_value *values, uint32_t count) {
  const double a = values[0].value;
  const double b = values[count / 2].value;
  const double c = values[count - 1].value;
  return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

/* Takes values as long as blocks are left; returns what they save. */
static double take(const struct best_bound *bound, const struct best_value *values, uint32_t count,
                   double *left, uint8_t *is_in) {
  double saved = 0;
  for (uint32_t i = 0; i < count && *left > 0; i++) {
    const double taken = fmin(*left, blocks_of(bound, values[i].group));
    saved += taken * values[i].value;
    *left -= taken;
    if (is_in != NULL)
      is_in[values[i].group] = 1;
  }
  return saved;
}

static double size_of(const struct best_bound *bound, const struct best_value *values,
                      uint32_t count) {
  double blocks = 0;
  for (uint32_t i = 0; i < count; i++)
    blocks += blocks_of(bound, values[i].group);
  return blocks;
}

/* Takes the largest values that fit, the last one in part; returns what they save. */
static double take_largest(const struct best_bound *bound, uint32_t count, double left,
                           uint8_t *is_in) {
  struct best_value *values = bound->values;
  double saved = 0;
  while (count > 0 && left > 0) {
    uint32_t ends[2];
    part_at(values, count, middle_of(values, count), ends);
    if (ends[0] > 0 && size_of(bound, values, ends[0]) >= left) {
      count = ends[0];
      continue;
    }
    saved += take(bound, values, ends[1], &left, is_in);
    values += ends[1];
    count -= ends[1];
  }
  return saved;
}

/* What these roles save at most if they are wholly on NVM, with the largest weights beside them;
 * unless `is_in` is NULL, notes which groups those are. */
static double saved_ps(const struct best_bound *bound, uint32_t whole, int64_t blocks,
                       uint8_t *is_in) {
  const struct best_trace *trace = bound->trace;
  double saved = 0;
  uint32_t count = 0;
  for (uint32_t role = 0; role < TK_ROLES; role++) {
    const bool is_whole = whole >> role & 1u;
    if (is_whole) {
      saved += bound->flush_ps[role];
      blocks -= trace->role_blocks[role];
    }
    for (uint32_t i = trace->role_begin[role]; i < trace->role_begin[role + 1]; i++) {
      const uint32_t group = trace->by_role[i];
      if (is_whole)
        saved += bound->weights[group];
      else if (bound->weights[group] > 0)
        bound->values[count++] = (struct best_value){best_bound_value(bound, group), group};
      if (is_in != NULL)
        is_in[group] = is_whole;
    }
  }
  return saved + take_largest(bound, count, (double)blocks, is_in);
}

/* Returns the roles that are wholly on NVM in the case that saves most. */
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

int64_t best_bound_at(struct best_bound *bound, int64_t blocks, uint8_t *is_in) {
  double saved;
  const uint32_t whole = best_case(bound, blocks, &saved);
  if (is_in != NULL)
    (void)saved_ps(bound, whole, blocks, is_in);
  return bound->rounds > 0 ? floor_ps(bound, saved) : 0;
}

void best_bound_weigh(struct best_bound *bound, uint32_t rounds) {
  for (uint32_t round = 0; round < rounds; round++)
    divide(bound);
}

int best_bound_init(struct best_bound *bound, const struct best_trace *trace) {
  const size_t groups = trace->groups + 1ul;
  *bound = (struct best_bound){.trace = trace};
  bound->weights = calloc(groups, sizeof *bound->weights);
  bound->values = calloc(groups, sizeof *bound->values);
  return bound->weights != NULL && bound->values != NULL ? 0 : -ENOMEM;
}

void best_bound_clear(struct best_bound *bound) {
  memset(bound->weights, 0, bound->trace->groups * sizeof *bound->weights);
  memset(bound->flush_ps, 0, sizeof bound->flush_ps);
  bound->constant_ps = 0;
  bound->summed_ps = 0;
  bound->rounds = 0;
}

void best_bound_free(struct best_bound *bound) {
  free(bound->weights);
  free(bound->values);
}
