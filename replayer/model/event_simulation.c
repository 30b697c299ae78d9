#include "model/event_simulation.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/block_map.h"
#include "model/block_steps.h"
#include "model/device_split.h"
#include "model/nested_placements.h"
#include "model/nvm_layout.h"
#include "model/row_reader.h"

#define PS_PER_NS 1000
#define SERVERS_MAX 256u

/* The points of a role's first and last blocks to move, by order. */
struct reach {
  uint16_t lowest[TK_ORDERS];
  uint16_t highest[TK_ORDERS];
};

/* The placements on some devices. */
struct variant {
  struct tk_simulation_setup setup;
  struct nested_placements *nested;
};

struct tk_simulation {
  struct tk_simulation_setup setup;
  struct block_map *map;
  struct nvm_layout *layout; /* NULL where what continues on NVM costs no less */
  bool is_twin;              /* map and layout are another simulation's */
  bool is_needed[TK_ORDERS]; /* some placement has this order */
  struct row_reader reader;
  struct device_split splits[TK_ORDERS];
  struct reach reaches[TK_ROLES];
  struct variant *variants; /* the setup's devices, then the others */
  uint64_t variant_count;
  struct tk_simulation_totals totals;
  int64_t first_ns;                  /* of the first arrival, -1 before */
  int64_t arrival_ps;                /* of this request, since the first */
  int64_t bound_ps;                  /* no sum of service times can exceed this */
  struct tk_simulation_prices worst; /* the largest of all devices' */
  int64_t longest_seek_ps;
};

static bool are_scenarios_valid(const struct tk_simulation_setup *setup) {
  bool is_valid = setup->scenario_count > 0;
  for (uint32_t i = 0; is_valid && i < setup->scenario_count; i++) {
    const struct tk_scenario *scenario = &setup->scenarios[i];
    is_valid =
        scenario->order < TK_ORDERS && (i == 0 || scenario->order >= setup->scenarios[i - 1].order);
  }
  return is_valid;
}

static bool are_prices_valid(const struct tk_spindle *disk, const int64_t flush_ps[2][TK_FLUSHES]) {
  return flush_is_valid(flush_ps[0]) && flush_is_valid(flush_ps[1]) &&
         (disk->half_turn_ps == 0 || spindle_is_valid(disk));
}

static bool is_setup_valid(const struct tk_simulation_setup *setup) {
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

static void find_reaches(struct tk_simulation *simulation) {
  for (int order = 0; order < TK_ORDERS; order++) {
    for (int role = 0; role < TK_ROLES; role++) {
      simulation->reaches[role].lowest[order] = UINT16_MAX;
      simulation->reaches[role].highest[order] = UINT16_MAX;
    }
    for (uint32_t i = 0; i < simulation->setup.placement.block_count; i++) {
      const struct tk_placement_block *block = &simulation->setup.placement.blocks[i];
      uint16_t *lowest = &simulation->reaches[block->role].lowest[order];
      uint16_t *highest = &simulation->reaches[block->role].highest[order];
      const uint16_t point = block->point[order];
      *highest = *lowest == UINT16_MAX || point > *highest ? point : *highest;
      *lowest = point < *lowest ? point : *lowest;
    }
  }
}

static struct tk_simulation_prices prices_of(const struct tk_simulation_setup *setup) {
  struct tk_simulation_prices prices = {
      .base = setup->placement.base, .nvm = setup->placement.nvm, .disk = setup->disk};
  memcpy(prices.flush_ps, setup->flush_ps, sizeof prices.flush_ps);
  return prices;
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

static void raise_worst(struct tk_simulation *simulation,
                        const struct tk_simulation_prices *prices) {
  raise_cost(&simulation->worst.base, &prices->base);
  raise_cost(&simulation->worst.nvm, &prices->nvm);
  for (int i = 0; i < 2; i++)
    for (int found = 0; found < TK_FLUSHES; found++)
      simulation->worst.flush_ps[i][found] =
          max_ps(simulation->worst.flush_ps[i][found], prices->flush_ps[i][found]);
  if (prices->disk.half_turn_ps > 0)
    simulation->longest_seek_ps =
        max_ps(simulation->longest_seek_ps, spindle_longest_ps(&prices->disk));
}

/* The placements on the setup's devices, and on each other. */
static int make_variants(struct tk_simulation *simulation) {
  simulation->variant_count = 1 + simulation->setup.other_count;
  simulation->variants = calloc(simulation->variant_count, sizeof *simulation->variants);
  int error = simulation->variants == NULL ? -ENOMEM : 0;
  for (uint64_t i = 0; i < simulation->variant_count && !error; i++) {
    struct tk_simulation_setup *setup = &simulation->variants[i].setup;
    *setup = simulation->setup;
    const struct tk_simulation_prices prices =
        i == 0 ? prices_of(setup) : simulation->setup.others[i - 1];
    setup->placement.base = prices.base;
    setup->placement.nvm = prices.nvm;
    setup->disk = prices.disk;
    memcpy(setup->flush_ps, prices.flush_ps, sizeof setup->flush_ps);
    raise_worst(simulation, &prices);
    error = nested_new(setup, simulation->layout, &simulation->variants[i].nested);
  }
  simulation->setup.others = NULL;
  return error;
}

/* Lays out NVM if it has a head that matters on some of the devices. */
static int lay_out(struct tk_simulation *simulation) {
  const struct tk_placement_setup *placement = &simulation->setup.placement;
  bool is_needed = nested_has_head(&placement->nvm);
  for (uint64_t i = 0; i < simulation->setup.other_count; i++)
    is_needed = is_needed || nested_has_head(&simulation->setup.others[i].nvm);
  return is_needed ? nvm_layout_new(placement->blocks, placement->block_count, &simulation->layout)
                   : 0;
}

static int allocate(struct tk_simulation *simulation) {
  const struct tk_placement_setup *placement = &simulation->setup.placement;
  for (uint32_t i = 0; i < simulation->setup.scenario_count; i++)
    simulation->is_needed[simulation->setup.scenarios[i].order] = true;
  int error = 0;
  if (!simulation->is_twin)
    error = block_map_new(placement->keys, placement->block_count, &simulation->map);
  if (!error && !simulation->is_twin)
    error = lay_out(simulation);
  if (!error)
    error = make_variants(simulation);
  if (!error)
    error = row_reader_init(&simulation->reader, placement->device_count, placement->as_issued,
                            &simulation->totals.placement);
  simulation->reader.lookup = (struct row_lookup){simulation->map, placement->devices,
                                                  placement->blocks, sizeof *placement->blocks};
  return error;
}

/* Makes a simulation, with the blocks of `first` unless that is NULL. */
static int make(const struct tk_simulation_setup *setup, const struct tk_simulation *first,
                struct tk_simulation **out) {
  struct tk_simulation *simulation = calloc(1, sizeof *simulation);
  if (simulation == NULL)
    return -ENOMEM;
  simulation->setup = *setup;
  simulation->first_ns = -1;
  simulation->totals.placement.bad_request_id = -1;
  if (first == NULL) {
    find_reaches(simulation);
  } else {
    simulation->is_twin = true;
    simulation->map = first->map;
    simulation->layout = first->layout;
    memcpy(simulation->reaches, first->reaches, sizeof simulation->reaches);
  }
  const int error = allocate(simulation);
  if (error) {
    tk_simulation_free(simulation);
    return error;
  }
  *out = simulation;
  return 0;
}

int tk_simulation_new(const struct tk_simulation_setup *setup, struct tk_simulation **out) {
  return is_setup_valid(setup) ? make(setup, NULL, out) : -EINVAL;
}

int tk_simulation_twin(const struct tk_simulation *first, const struct tk_scenario *scenarios,
                       uint32_t count, struct tk_simulation **out) {
  struct tk_simulation_setup setup = first->setup;
  setup.scenarios = scenarios;
  setup.scenario_count = count;
  setup.other_count = 0;
  return are_scenarios_valid(&setup) ? make(&setup, first, out) : -EINVAL;
}

/* Moves the clock to an arrival; one without a time, or before the last, comes with the last. */
static bool set_clock(struct tk_simulation *simulation, int64_t arrival_ns) {
  const bool is_dated = arrival_ns >= 0;
  if (simulation->first_ns < 0 && is_dated)
    simulation->first_ns = arrival_ns;
  int64_t since_ps = 0;
  if (is_dated && __builtin_mul_overflow(arrival_ns - simulation->first_ns, PS_PER_NS, &since_ps))
    return false;
  simulation->totals.undated += !is_dated || since_ps < simulation->arrival_ps;
  simulation->arrival_ps = since_ps > simulation->arrival_ps ? since_ps : simulation->arrival_ps;
  return true;
}

/* Dates a job, and rejects it if with it a time could leave 64 bits. */
static int arrive(struct tk_simulation *simulation, const struct issue_request *request,
                  int64_t longest_ps) {
  int64_t end_ps;
  if ((!simulation->setup.is_open || set_clock(simulation, request->issue_ns)) &&
      !__builtin_add_overflow(simulation->bound_ps, longest_ps, &simulation->bound_ps) &&
      !__builtin_add_overflow(simulation->bound_ps, simulation->arrival_ps, &end_ps))
    return 0;
  simulation->totals.placement.bad_request_id = request->request_id;
  return -EOVERFLOW;
}

/* Counts for its role what a job takes, and until when, in the first placement. */
static void count_first(struct tk_simulation *simulation, const struct issue_request *request,
                        int64_t service_ps, int64_t answer_ps) {
  simulation->totals.role_service_ps[request->role] += service_ps;
  add_wide(&simulation->totals.role_answer_ps[request->role], answer_ps);
}

static int flush(void *context, const struct issue_request *request) {
  struct tk_simulation *simulation = context;
  const int64_t (*worst)[TK_FLUSHES] = (const int64_t (*)[TK_FLUSHES])simulation->worst.flush_ps;
  const int error =
      arrive(simulation, request, worst[0][TK_FLUSH_WRITTEN] + worst[1][TK_FLUSH_WRITTEN]);
  if (error)
    return error;
  const struct reach *reach = &simulation->reaches[request->role];
  const struct nested_placements *first = simulation->variants[0].nested;
  const int64_t earlier_ps = nested_first_ps(first);
  for (uint64_t i = 0; i < simulation->variant_count; i++) {
    const int64_t answer_ps = nested_flush(simulation->variants[i].nested, request, reach->lowest,
                                           reach->highest, simulation->arrival_ps);
    if (i == 0)
      count_first(simulation, request, nested_first_ps(first) - earlier_ps,
                  request->is_preflush ? 0 : answer_ps);
  }
  simulation->totals.responses += !request->is_preflush;
  return 0;
}

/* Roles keep to blocks of their own, and roles that are not placed to the base device. */
static uint16_t point_of(const struct tk_simulation *simulation, uint32_t index, int order,
                         uint8_t role) {
  if (index == BLOCK_MAP_NONE)
    return UINT16_MAX;
  const struct tk_placement_block *block = &simulation->setup.placement.blocks[index];
  if (order != TK_ORDER_OPTIMAL && block->role != role)
    return UINT16_MAX;
  return block->point[order];
}

static int find_splits(struct tk_simulation *simulation, const struct issue_request *request) {
  const struct tk_placement_device *device = &simulation->setup.placement.devices[request->device];
  struct block_steps steps = block_steps_of(simulation->map, device, request);
  for (int order = 0; order < TK_ORDERS; order++)
    device_split_clear(&simulation->splits[order]);

  /* One pass over the blocks for all orders: each block is looked up once. */
  while (block_steps_next(&steps)) {
    simulation->totals.placement.missing_blocks += steps.index == BLOCK_MAP_NONE;
    for (int order = 0; order < TK_ORDERS; order++) {
      if (!simulation->is_needed[order])
        continue;
      const uint16_t point = point_of(simulation, steps.index, order, request->role);
      const int64_t place =
          simulation->layout == NULL || point == UINT16_MAX
              ? 0
              : nvm_layout_place(simulation->layout, order, steps.index, steps.first);
      const int error =
          device_split_add(&simulation->splits[order], point, steps.first, steps.end, place);
      if (error)
        return error;
    }
  }
  return 0;
}

static void charge(struct tk_simulation *simulation, const struct issue_request *request) {
  struct nested_placements *first = simulation->variants[0].nested;
  const int64_t earlier_ps = nested_first_ps(first);
  const int64_t answer_ps =
      nested_charge(first, request, simulation->splits, simulation->arrival_ps);
  count_first(simulation, request, nested_first_ps(first) - earlier_ps, answer_ps);
  for (uint64_t i = 1; i < simulation->variant_count; i++)
    (void)nested_charge(simulation->variants[i].nested, request, simulation->splits,
                        simulation->arrival_ps);
}

/* Returns the longest that a request can take on both devices, INT64_MAX when that is too long. */
static int64_t longest_ps(const struct tk_simulation *simulation,
                          const struct issue_request *request) {
  const struct tk_placement_cost *base = &simulation->worst.base;
  const struct tk_placement_cost *nvm = &simulation->worst.nvm;
  const int op = request->is_write;
  const int64_t begin_ps = base->latency_ps[op] + base->fua_ps + simulation->longest_seek_ps;
  int64_t begins_ps;
  int64_t longest;
  if (__builtin_mul_overflow(request->sectors, base->sector_ps[op] + nvm->sector_ps[op],
                             &longest) ||
      __builtin_mul_overflow(block_steps_most_runs(request), begin_ps, &begins_ps) ||
      __builtin_add_overflow(longest, begins_ps, &longest) ||
      __builtin_add_overflow(longest, nvm->latency_ps[op] + nvm->fua_ps, &longest))
    return INT64_MAX;
  return longest;
}

static int transfer(void *context, const struct issue_request *request) {
  struct tk_simulation *simulation = context;
  int error = arrive(simulation, request, longest_ps(simulation, request));
  if (!error)
    error = find_splits(simulation, request);
  if (error)
    return error;
  charge(simulation, request);
  simulation->totals.placement.requests[request->role]++;
  simulation->totals.responses++;
  if (simulation->setup.disk.half_turn_ps > 0)
    simulation->totals.beyond +=
        request->sector + request->sectors > simulation->setup.disk.capacity_sectors;
  return 0;
}

int tk_simulation_add(struct tk_simulation *simulation, const struct tk_placement_rows *rows) {
  const struct row_sink sink = {simulation, transfer, flush};
  return row_reader_add(&simulation->reader, rows, &sink);
}

int tk_simulation_finish(struct tk_simulation *simulation) {
  const struct row_sink sink = {simulation, transfer, flush};
  return row_reader_finish(&simulation->reader, &sink);
}

void tk_simulation_read(const struct tk_simulation *simulation, struct tk_simulation_totals *totals,
                        struct tk_simulated *results) {
  *totals = simulation->totals;
  totals->span_ps = simulation->arrival_ps;
  for (uint64_t i = 0; results != NULL && i < simulation->variant_count; i++)
    nested_read(simulation->variants[i].nested, results + i * simulation->setup.scenario_count);
}

void tk_simulation_free(struct tk_simulation *simulation) {
  if (simulation == NULL)
    return;
  if (!simulation->is_twin) {
    block_map_free(simulation->map);
    nvm_layout_free(simulation->layout);
  }
  for (uint64_t i = 0; simulation->variants != NULL && i < simulation->variant_count; i++)
    nested_free(simulation->variants[i].nested);
  free(simulation->variants);
  row_reader_free(&simulation->reader);
  for (int order = 0; order < TK_ORDERS; order++)
    device_split_free(&simulation->splits[order]);
  free(simulation);
}
