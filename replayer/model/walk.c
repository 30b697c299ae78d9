#include "model/walk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/block_map.h"
#include "model/block_steps.h"
#include "model/device_split.h"
#include "model/nested_placements.h"
#include "model/row_reader.h"

#define PS_PER_NS 1000
#define SERVERS_MAX 256u

/* Where the previous request of a traced device ended. */
struct end {
  int64_t sector; /* one past its last; -1 before the first request */
  uint16_t point[TK_ORDERS];
  uint8_t role;
};

/* The points of a role's first and last blocks to move, by order. */
struct reach {
  uint16_t lowest[TK_ORDERS];
  uint16_t highest[TK_ORDERS];
};

/* The placements on some devices. */
struct variant {
  struct tk_walk_setup setup;
  struct nested_placements *nested;
};

struct tk_walk {
  struct tk_walk_setup setup;
  struct block_map *map;
  bool is_twin;              /* the map is another walk's */
  bool is_needed[TK_ORDERS]; /* some placement has this order */
  struct row_reader reader;
  struct device_split splits[TK_ORDERS];
  struct reach reaches[TK_ROLES];
  struct variant *variants; /* the setup's devices, then the others */
  uint64_t variant_count;
  struct end *ends; /* one a traced device */
  struct tk_walk_totals totals;
  int64_t first_ns;            /* of the first arrival, -1 before */
  int64_t arrival_ps;          /* of this request, since the first */
  int64_t bound_ps;            /* no sum of service times can exceed this */
  struct tk_walk_prices worst; /* the largest of all devices' */
  int64_t longest_seek_ps;
};

static bool are_scenarios_valid(const struct tk_walk_setup *setup) {
  bool is_valid = setup->scenario_count > 0;
  for (uint32_t i = 0; is_valid && i < setup->scenario_count; i++) {
    const struct tk_scenario *scenario = &setup->scenarios[i];
    is_valid =
        scenario->order < TK_ORDERS && (i == 0 || scenario->order >= setup->scenarios[i - 1].order);
  }
  return is_valid;
}

static bool are_prices_valid(const struct tk_spindle *disk, const int64_t flush_ps[2]) {
  return flush_ps[0] >= 0 && flush_ps[1] >= 0 &&
         (disk->half_turn_ps == 0 || spindle_is_valid(disk));
}

static bool is_setup_valid(const struct tk_walk_setup *setup) {
  bool is_valid = setup->placement.point_count < UINT16_MAX && are_scenarios_valid(setup) &&
                  are_prices_valid(&setup->disk, setup->flush_ps);
  for (uint64_t i = 0; i < setup->other_count; i++)
    is_valid = is_valid && are_prices_valid(&setup->others[i].disk, setup->others[i].flush_ps);
  for (int i = 0; i < 2; i++)
    is_valid = is_valid && setup->servers[i] > 0 && setup->servers[i] <= SERVERS_MAX;
  for (uint32_t i = 0; is_valid && i < setup->placement.block_count; i++)
    is_valid = setup->placement.blocks[i].role < TK_ROLES;
  return is_valid;
}

static void find_reaches(struct tk_walk *walk) {
  for (int order = 0; order < TK_ORDERS; order++) {
    for (int role = 0; role < TK_ROLES; role++) {
      walk->reaches[role].lowest[order] = UINT16_MAX;
      walk->reaches[role].highest[order] = UINT16_MAX;
    }
    for (uint32_t i = 0; i < walk->setup.placement.block_count; i++) {
      const struct tk_placement_block *block = &walk->setup.placement.blocks[i];
      uint16_t *lowest = &walk->reaches[block->role].lowest[order];
      uint16_t *highest = &walk->reaches[block->role].highest[order];
      const uint16_t point = block->point[order];
      *highest = *lowest == UINT16_MAX || point > *highest ? point : *highest;
      *lowest = point < *lowest ? point : *lowest;
    }
  }
}

static struct tk_walk_prices prices_of(const struct tk_walk_setup *setup) {
  return (struct tk_walk_prices){setup->placement.base,
                                 setup->placement.nvm,
                                 setup->disk,
                                 {setup->flush_ps[0], setup->flush_ps[1]}};
}

static int64_t max_ps(int64_t a, int64_t b) { return a > b ? a : b; }

static void raise_cost(struct tk_placement_cost *worst, const struct tk_placement_cost *cost) {
  for (int op = 0; op < 2; op++) {
    worst->latency_ps[op] = max_ps(worst->latency_ps[op], cost->latency_ps[op]);
    worst->sequential_ps[op] = max_ps(worst->sequential_ps[op], cost->sequential_ps[op]);
    worst->sector_ps[op] = max_ps(worst->sector_ps[op], cost->sector_ps[op]);
  }
  worst->fua_ps = max_ps(worst->fua_ps, cost->fua_ps);
}

static void raise_worst(struct tk_walk *walk, const struct tk_walk_prices *prices) {
  raise_cost(&walk->worst.base, &prices->base);
  raise_cost(&walk->worst.nvm, &prices->nvm);
  for (int i = 0; i < 2; i++)
    walk->worst.flush_ps[i] = max_ps(walk->worst.flush_ps[i], prices->flush_ps[i]);
  if (prices->disk.half_turn_ps > 0)
    walk->longest_seek_ps = max_ps(walk->longest_seek_ps, spindle_longest_ps(&prices->disk));
}

/* The placements on the setup's devices, and on each other. */
static int make_variants(struct tk_walk *walk) {
  walk->variant_count = 1 + walk->setup.other_count;
  walk->variants = calloc(walk->variant_count, sizeof *walk->variants);
  int error = walk->variants == NULL ? -ENOMEM : 0;
  for (uint64_t i = 0; i < walk->variant_count && !error; i++) {
    struct tk_walk_setup *setup = &walk->variants[i].setup;
    *setup = walk->setup;
    const struct tk_walk_prices prices = i == 0 ? prices_of(setup) : walk->setup.others[i - 1];
    setup->placement.base = prices.base;
    setup->placement.nvm = prices.nvm;
    setup->disk = prices.disk;
    memcpy(setup->flush_ps, prices.flush_ps, sizeof setup->flush_ps);
    raise_worst(walk, &prices);
    error = nested_new(setup, &walk->variants[i].nested);
  }
  walk->setup.others = NULL;
  return error;
}

static int allocate(struct tk_walk *walk) {
  const struct tk_placement_setup *placement = &walk->setup.placement;
  walk->ends = malloc((placement->device_count + 1ul) * sizeof *walk->ends);
  if (walk->ends == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < placement->device_count; i++)
    walk->ends[i].sector = -1;
  for (uint32_t i = 0; i < walk->setup.scenario_count; i++)
    walk->is_needed[walk->setup.scenarios[i].order] = true;
  int error = make_variants(walk);
  if (!error && !walk->is_twin)
    error = block_map_new(placement->keys, placement->block_count, &walk->map);
  if (error)
    return error;
  return row_reader_init(&walk->reader, placement->device_count, placement->as_issued,
                         &walk->totals.placement);
}

/* Makes a walk, with the blocks of `first` unless that is NULL. */
static int make(const struct tk_walk_setup *setup, const struct tk_walk *first,
                struct tk_walk **out) {
  struct tk_walk *walk = calloc(1, sizeof *walk);
  if (walk == NULL)
    return -ENOMEM;
  walk->setup = *setup;
  walk->first_ns = -1;
  walk->totals.placement.bad_request_id = -1;
  if (first == NULL) {
    find_reaches(walk);
  } else {
    walk->is_twin = true;
    walk->map = first->map;
    memcpy(walk->reaches, first->reaches, sizeof walk->reaches);
  }
  const int error = allocate(walk);
  if (error) {
    tk_walk_free(walk);
    return error;
  }
  *out = walk;
  return 0;
}

int tk_walk_new(const struct tk_walk_setup *setup, struct tk_walk **out) {
  return is_setup_valid(setup) ? make(setup, NULL, out) : -EINVAL;
}

int tk_walk_twin(const struct tk_walk *first, const struct tk_scenario *scenarios, uint32_t count,
                 struct tk_walk **out) {
  struct tk_walk_setup setup = first->setup;
  setup.scenarios = scenarios;
  setup.scenario_count = count;
  setup.other_count = 0;
  return are_scenarios_valid(&setup) ? make(&setup, first, out) : -EINVAL;
}

/* Moves the clock to an arrival; one without a time, or before the last, comes with the last. */
static bool set_clock(struct tk_walk *walk, int64_t arrival_ns) {
  const bool is_dated = arrival_ns >= 0;
  if (walk->first_ns < 0 && is_dated)
    walk->first_ns = arrival_ns;
  int64_t since_ps = 0;
  if (is_dated && __builtin_mul_overflow(arrival_ns - walk->first_ns, PS_PER_NS, &since_ps))
    return false;
  walk->totals.undated += !is_dated || since_ps < walk->arrival_ps;
  walk->arrival_ps = since_ps > walk->arrival_ps ? since_ps : walk->arrival_ps;
  return true;
}

/* Dates a job, and refuses it if with it a time could leave 64 bits. */
static int arrive(struct tk_walk *walk, const struct issue_request *request, int64_t longest_ps) {
  int64_t end_ps;
  if ((!walk->setup.is_open || set_clock(walk, request->issue_ns)) &&
      !__builtin_add_overflow(walk->bound_ps, longest_ps, &walk->bound_ps) &&
      !__builtin_add_overflow(walk->bound_ps, walk->arrival_ps, &end_ps))
    return 0;
  walk->totals.placement.bad_request_id = request->request_id;
  return -EOVERFLOW;
}

/* Counts for its role what a job takes, and until when, in the first placement. */
static void count_first(struct tk_walk *walk, const struct issue_request *request,
                        int64_t service_ps, int64_t answer_ps) {
  walk->totals.role_service_ps[request->role] += service_ps;
  add_wide(&walk->totals.role_answer_ps[request->role], answer_ps);
}

static int flush(void *context, const struct issue_request *request) {
  struct tk_walk *walk = context;
  const int error = arrive(walk, request, max_ps(walk->worst.flush_ps[0], walk->worst.flush_ps[1]));
  if (error)
    return error;
  const struct reach *reach = &walk->reaches[request->role];
  for (uint64_t i = 0; i < walk->variant_count; i++) {
    const int64_t answer_ps = nested_flush(walk->variants[i].nested, request, reach->lowest,
                                           reach->highest, walk->arrival_ps);
    if (i == 0)
      count_first(walk, request, walk->setup.flush_ps[0], request->is_preflush ? 0 : answer_ps);
  }
  walk->totals.responses += !request->is_preflush;
  return 0;
}

/* Roles keep to blocks of their own, and roles that are not placed to the base device. */
static uint16_t point_of(const struct tk_walk *walk, uint32_t index, int order, uint8_t role) {
  if (index == BLOCK_MAP_NONE)
    return UINT16_MAX;
  const struct tk_placement_block *block = &walk->setup.placement.blocks[index];
  if (order != TK_ORDER_OPTIMAL && block->role != role)
    return UINT16_MAX;
  return block->point[order];
}

static int find_splits(struct tk_walk *walk, const struct issue_request *request) {
  const struct tk_placement_device *device = &walk->setup.placement.devices[request->device];
  struct block_steps steps = block_steps_of(walk->map, device, request);
  for (int order = 0; order < TK_ORDERS; order++)
    device_split_clear(&walk->splits[order]);
  while (block_steps_next(&steps)) {
    walk->totals.placement.missing_blocks += steps.index == BLOCK_MAP_NONE;
    for (int order = 0; order < TK_ORDERS; order++) {
      if (!walk->is_needed[order])
        continue;
      const uint16_t point = point_of(walk, steps.index, order, request->role);
      const int error = device_split_add(&walk->splits[order], point, steps.first, steps.end);
      if (error)
        return error;
    }
  }
  for (int order = 0; order < TK_ORDERS; order++)
    device_split_finish(&walk->splits[order]);
  return 0;
}

static void charge(struct tk_walk *walk, const struct issue_request *request,
                   const uint16_t *before) {
  struct nested_placements *first = walk->variants[0].nested;
  const int64_t earlier_ps = nested_first_ps(first);
  const int64_t answer_ps = nested_charge(first, request, walk->splits, before, walk->arrival_ps);
  count_first(walk, request, nested_first_ps(first) - earlier_ps, answer_ps);
  for (uint64_t i = 1; i < walk->variant_count; i++)
    (void)nested_charge(walk->variants[i].nested, request, walk->splits, before, walk->arrival_ps);
}

/* Returns the longest that a request can take on both devices, INT64_MAX when that is too long. */
static int64_t longest_ps(const struct tk_walk *walk, const struct issue_request *request) {
  const struct tk_placement_cost *base = &walk->worst.base;
  const struct tk_placement_cost *nvm = &walk->worst.nvm;
  const int op = request->is_write;
  const int64_t fixed_ps = base->latency_ps[op] + base->fua_ps + nvm->latency_ps[op] + nvm->fua_ps +
                           walk->longest_seek_ps;
  int64_t longest;
  if (__builtin_mul_overflow(request->sectors, base->sector_ps[op] + nvm->sector_ps[op],
                             &longest) ||
      __builtin_add_overflow(longest, fixed_ps, &longest))
    return INT64_MAX;
  return longest;
}

static int transfer(void *context, const struct issue_request *request) {
  struct tk_walk *walk = context;
  int error = arrive(walk, request, longest_ps(walk, request));
  if (!error)
    error = find_splits(walk, request);
  if (error)
    return error;
  struct end *end = &walk->ends[request->device];
  const bool is_sequential = end->sector == request->sector && end->role == request->role;
  charge(walk, request, is_sequential ? end->point : NULL);
  end->sector = request->sector + request->sectors;
  end->role = request->role;
  for (int order = 0; order < TK_ORDERS; order++)
    end->point[order] = walk->splits[order].last_point;
  walk->totals.placement.requests[request->role]++;
  walk->totals.responses++;
  if (walk->setup.disk.half_turn_ps > 0)
    walk->totals.beyond += end->sector > walk->setup.disk.capacity_sectors;
  return 0;
}

int tk_walk_add(struct tk_walk *walk, const struct tk_placement_rows *rows) {
  const struct row_sink sink = {walk, transfer, flush};
  return row_reader_add(&walk->reader, rows, &sink);
}

int tk_walk_finish(struct tk_walk *walk) {
  const struct row_sink sink = {walk, transfer, flush};
  return row_reader_finish(&walk->reader, &sink);
}

void tk_walk_read(const struct tk_walk *walk, struct tk_walk_totals *totals,
                  struct tk_walked *walked) {
  *totals = walk->totals;
  totals->span_ps = walk->arrival_ps;
  for (uint64_t i = 0; walked != NULL && i < walk->variant_count; i++)
    nested_read(walk->variants[i].nested, walked + i * walk->setup.scenario_count);
}

void tk_walk_free(struct tk_walk *walk) {
  if (walk == NULL)
    return;
  if (!walk->is_twin)
    block_map_free(walk->map);
  for (uint64_t i = 0; walk->variants != NULL && i < walk->variant_count; i++)
    nested_free(walk->variants[i].nested);
  free(walk->variants);
  row_reader_free(&walk->reader);
  for (int order = 0; order < TK_ORDERS; order++)
    device_split_free(&walk->splits[order]);
  free(walk->ends);
  free(walk);
}
