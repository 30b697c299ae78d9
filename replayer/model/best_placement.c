#include "model/best_placement.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/best_anneal.h"
#include "model/best_bound.h"
#include "model/best_path.h"
#include "model/best_search.h"
#include "model/best_set.h"
#include "model/best_trace.h"
#include "model/block_steps.h"

#define WORD_BITS 64u
#define FIRST_SPACE 256u

struct tk_best {
  struct best_trace trace;
  struct best_bound bound;
  struct best_path *path;          /* NULL: not made */
  const struct best_bound *valued; /* whose weights are the groups' values */
  struct best_set set;
  struct tk_placement_device *devices;
  struct block_map *map;
  struct row_reader reader;
  struct tk_placement_totals totals;
  uint64_t *starts; /* a bit by block: a group begins there */
  struct best_value *space;
  uint8_t *kept;    /* by group: the best placement while others are tried */
  int64_t worst_ps; /* no time can exceed this */
};

/* A disk's latencies are not used: its head takes their place. */
static bool is_cost_valid(const struct tk_placement_cost *cost, bool is_disk) {
  bool is_valid = cost->fua_ps >= 0;
  for (int op = 0; op < 2; op++)
    is_valid = is_valid && cost->sequential_ps[op] >= 0 && cost->sector_ps[op] >= 0 &&
               (is_disk || cost->sequential_ps[op] <= cost->latency_ps[op]);
  return is_valid;
}

static bool are_prices_valid(const struct tk_best_prices *prices) {
  const bool is_disk = prices->disk.half_turn_ps > 0;
  return is_cost_valid(&prices->base, is_disk) && is_cost_valid(&prices->nvm, false) &&
         flush_is_valid(prices->flush_ps[0]) && flush_is_valid(prices->flush_ps[1]) &&
         (!is_disk || spindle_is_valid(&prices->disk));
}

static void free_path(struct tk_best *best) {
  if (best->path != NULL)
    best_path_free(best->path);
  free(best->path);
  best->path = NULL;
}

static int allocate(struct tk_best *best) {
  const struct tk_best_setup *setup = &best->trace.setup;
  best->devices = malloc((setup->device_count + 1ul) * sizeof *best->devices);
  best->trace.streams = calloc(setup->device_count + 1ul, sizeof *best->trace.streams);
  best->starts = calloc(setup->block_count / WORD_BITS + 1ul, sizeof *best->starts);
  if (best->devices == NULL || best->trace.streams == NULL || best->starts == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < setup->device_count; i++)
    best->devices[i] = setup->devices[i];
  int error = block_map_new(setup->keys, setup->block_count, &best->map);
  if (!error)
    error = row_reader_init(&best->reader, setup->device_count, setup->as_issued, &best->totals);
  best->reader.lookup = (struct row_lookup){best->map, best->devices, NULL, 0};
  return error;
}

int tk_best_new(const struct tk_best_setup *setup, struct tk_best **out) {
  if (!are_prices_valid(&setup->prices))
    return -EINVAL;
  for (uint32_t i = 0; i < setup->block_count; i++)
    if (setup->roles[i] >= TK_ROLES)
      return -EINVAL;
  struct tk_best *best = calloc(1, sizeof *best);
  if (best == NULL)
    return -ENOMEM;
  best->trace.setup = *setup;
  best->totals.bad_request_id = -1;
  best->valued = &best->bound;
  const int error = allocate(best);
  if (error) {
    tk_best_free(best);
    return error;
  }
  *out = best;
  return 0;
}

static void cut(struct tk_best *best, uint32_t block) {
  if (block < best->trace.setup.block_count)
    best->starts[block / WORD_BITS] |= UINT64_C(1) << (block % WORD_BITS);
}

/* Keeps a request of neighbouring blocks; groups end where it does, and where it has a part of a
 * block only. */
static int keep(struct tk_best *best, struct best_stream *stream, struct best_request one) {
  if (stream->count == stream->space) {
    const uint64_t space = stream->space == 0 ? FIRST_SPACE : 2ul * stream->space;
    struct best_request *requests =
        space > UINT32_MAX ? NULL : realloc(stream->requests, space * sizeof *requests);
    if (requests == NULL)
      return -ENOMEM;
    stream->requests = requests;
    stream->space = (uint32_t)space;
  }
  stream->requests[stream->count++] = one;
  cut(best, one.first);
  cut(best, one.last + 1);
  if (one.lead > 0)
    cut(best, one.first + 1);
  if (one.tail > 0)
    cut(best, one.last);
  return 0;
}

/* Rejects a request with which a sum could leave 64 bits. */
static int raise_worst(struct tk_best *best, const struct issue_request *request) {
  const struct tk_best_prices *prices = &best->trace.setup.prices;
  const int op = request->is_write;
  const int64_t fixed_ps = prices->base.latency_ps[op] + prices->base.fua_ps +
                           prices->nvm.latency_ps[op] + prices->nvm.fua_ps +
                           prices->flush_ps[0][TK_FLUSH_WRITTEN] +
                           prices->flush_ps[1][TK_FLUSH_WRITTEN] +
                           (prices->disk.half_turn_ps > 0 ? spindle_longest_ps(&prices->disk) : 0);
  int64_t ps;
  if (!__builtin_mul_overflow(request->sectors,
                              prices->base.sector_ps[op] + prices->nvm.sector_ps[op], &ps) &&
      !__builtin_add_overflow(best->worst_ps, ps, &best->worst_ps) &&
      !__builtin_add_overflow(best->worst_ps, fixed_ps, &best->worst_ps))
    return 0;
  best->totals.bad_request_id = request->request_id;
  return -EOVERFLOW;
}

static int transfer(void *context, const struct issue_request *request) {
  struct tk_best *best = context;
  struct best_stream *stream = &best->trace.streams[request->device];
  struct best_request one = {
      .kind = (uint8_t)((request->is_write ? BEST_WRITE : 0) | (request->is_fua ? BEST_FUA : 0)),
      .epoch = best->trace.flush_count};
  bool is_open = false;
  uint8_t stuck = 0;
  int error = raise_worst(best, request);
  struct block_steps steps = block_steps_of(best->map, &best->devices[request->device], request);

  /* A block that is not known ends a run of those that are. */
  while (!error && block_steps_next(&steps)) {
    if (steps.index == BLOCK_MAP_NONE) {
      best->totals.missing_blocks++;
      stuck = BEST_STUCK;
      one.kind |= BEST_STUCK;
      error = is_open ? keep(best, stream, one) : 0;
      is_open = false;
      if (!error && flush_is_due_after(request->is_write, request->is_fua))
        error = best_trace_stuck(&best->trace, request->device);
      continue;
    }
    if (!is_open)
      one = (struct best_request){steps.index,
                                  steps.index,
                                  (uint8_t)(steps.first % BLOCK_SECTORS),
                                  0,
                                  (uint8_t)(one.kind | stuck),
                                  one.epoch};
    is_open = true;
    one.last = steps.index;
    one.tail = (uint8_t)((BLOCK_SECTORS - steps.end % BLOCK_SECTORS) % BLOCK_SECTORS);
  }
  best->totals.requests[request->role]++;
  return error || !is_open ? error : keep(best, stream, one);
}

static int flush(void *context, const struct issue_request *request) {
  struct tk_best *best = context;
  best->totals.flushes[request->role]++;
  return best_trace_flush(&best->trace, request->device, request->role);
}

int tk_best_add(struct tk_best *best, const struct tk_placement_rows *rows) {
  const struct row_sink sink = {best, transfer, flush};
  return row_reader_add(&best->reader, rows, &sink);
}

int tk_best_finish(struct tk_best *best, const uint8_t *cuts) {
  const struct row_sink sink = {best, transfer, flush};
  int error = row_reader_finish(&best->reader, &sink);
  if (error)
    return error;
  for (uint32_t i = 0; cuts != NULL && i < best->trace.setup.block_count; i++)
    if (cuts[i])
      cut(best, i);
  error = best_trace_group(&best->trace, best->starts);
  if (error)
    return error;
  best_trace_price(&best->trace);
  error = best_bound_init(&best->bound, &best->trace);
  if (!error)
    error = best_set_init(&best->set, &best->trace);
  best->space = calloc(best->trace.groups + 1ul, sizeof *best->space);
  best->kept = malloc(best->trace.groups + 1ul);
  return best->space == NULL || best->kept == NULL ? -ENOMEM : error;
}

void tk_best_read(const struct tk_best *best, struct tk_placement_totals *totals) {
  *totals = best->totals;
}

void tk_best_measure(const struct tk_best *best, struct tk_best_size *size) {
  *size = (struct tk_best_size){best->trace.requests, best->trace.pairs, best->trace.groups};
}

int tk_best_reprice(struct tk_best *best, const struct tk_best_prices *prices) {
  if (!are_prices_valid(prices))
    return -EINVAL;
  const int error = best_flushes_init(&best->set.flushes, &best->trace, prices);
  if (error)
    return error;
  best->trace.setup.prices = *prices;
  best_trace_price(&best->trace);
  best_bound_clear(&best->bound);
  best->valued = &best->bound;
  if (best->path != NULL)
    best_path_reset(best->path);
  return 0;
}

void tk_best_groups(const struct tk_best *best, uint32_t *first_blocks) {
  memcpy(first_blocks, best->trace.first_block, best->trace.groups * sizeof *first_blocks);
}

void tk_best_weigh(struct tk_best *best, uint32_t rounds) {
  best_bound_weigh(&best->bound, rounds);
  best->valued = &best->bound;
}

static int64_t not_negative(int64_t ps) { return ps > 0 ? ps : 0; }

void tk_best_bound(struct tk_best *best, const int64_t *blocks, uint64_t count, int64_t *bound_ps) {
  for (uint64_t i = 0; i < count; i++)
    bound_ps[i] = not_negative(best_bound_at(&best->bound, blocks[i], NULL));
}

int tk_best_tighten(struct tk_best *best, int64_t blocks, int64_t target_ps, uint32_t rounds,
                    int64_t *bound_ps) {
  if (best->path == NULL) {
    best->path = calloc(1, sizeof *best->path);
    if (best->path == NULL)
      return -ENOMEM;
    const int error = best_path_init(best->path, &best->trace);
    if (error) {
      free_path(best);
      return error;
    }
  }
  *bound_ps = not_negative(best_path_tighten(best->path, blocks, target_ps, rounds));
  best->valued = &best->path->best;
  return 0;
}

void tk_best_values(const struct tk_best *best, double *values) {
  for (uint32_t group = 0; group < best->trace.groups; group++)
    values[group] = best_bound_value(best->valued, group);
}

void tk_best_flush_ps(const struct tk_best *best, double *flush_ps) {
  memcpy(flush_ps, best->valued->flush_ps, sizeof best->valued->flush_ps);
}

static struct tk_best_result result_of(const struct tk_best *best) {
  return (struct tk_best_result){best->set.elapsed_ps, best->set.blocks};
}

int tk_best_choose(struct tk_best *best, int64_t blocks, const double *values, uint64_t steps,
                   uint8_t *on_nvm, struct tk_best_result *result) {
  struct best_set *set = &best->set;
  best_search_fill(set, blocks, values, best->space);
  best_set_time(set);
  if (steps > 0) {
    const int error = best_set_link(set);
    if (error)
      return error;
    best_search_climb(set, blocks, steps / 2, best->space);
    if (best->trace.is_ordered) {
      best_anneal(set, blocks, steps / 2, best->kept);
      best_search_climb(set, blocks, steps / 2, best->space);
    }
  }
  for (uint32_t group = 0; group < best->trace.groups; group++)
    memset(on_nvm + best->trace.first_block[group], set->on[group],
           best_blocks_of(&best->trace, group));
  *result = result_of(best);
  return 0;
}

void tk_best_time(struct tk_best *best, const uint8_t *on_nvm, struct tk_best_result *result) {
  for (uint32_t group = 0; group < best->trace.groups; group++)
    best->set.on[group] = on_nvm[best->trace.first_block[group]];
  best_set_time(&best->set);
  *result = result_of(best);
}

void tk_best_free(struct tk_best *best) {
  if (best == NULL)
    return;
  block_map_free(best->map);
  row_reader_free(&best->reader);
  best_trace_free(&best->trace);
  best_bound_free(&best->bound);
  free_path(best);
  best_set_free(&best->set);
  free(best->devices);
  free(best->starts);
  free(best->space);
  free(best->kept);
  free(best);
}
