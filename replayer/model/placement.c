#include "model/placement.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/block_map.h"
#include "model/block_steps.h"
#include "model/row_reader.h"

struct tk_placement {
  struct block_map *map;
  const struct tk_placement_block *blocks;
  struct tk_placement_device *devices;
  struct row_reader reader;
  int64_t *steps_ps; /* TK_CURVES rows of point_count + 1: the last column is "never" */
  uint16_t never;    /* the number of points */
  struct tk_placement_cost base;
  struct tk_placement_cost nvm;
  struct tk_placement_totals totals;
  int64_t bound_ps; /* no partial sum can exceed this */
};

static uint16_t min_point(uint16_t a, uint16_t b) { return a < b ? a : b; }

/* With a cost that depends on the request before, steps would not add up. */
static bool is_cost_valid(const struct tk_placement_cost *cost) {
  bool is_valid = cost->fua_ps >= 0;
  for (int i = 0; i < 2; i++)
    is_valid = is_valid && cost->latency_ps[i] >= 0 &&
               cost->sequential_ps[i] == cost->latency_ps[i] && cost->sector_ps[i] >= 0;
  return is_valid;
}

static bool are_blocks_valid(const struct tk_placement_setup *setup) {
  for (uint32_t i = 0; i < setup->block_count; i++) {
    const struct tk_placement_block *block = &setup->blocks[i];
    if (block->role >= TK_ROLES)
      return false;
    for (int order = 0; order < TK_ORDERS; order++)
      if (block->point[order] > setup->point_count)
        return false;
  }
  return true;
}

static int allocate(struct tk_placement *kernel, const struct tk_placement_setup *setup) {
  const size_t columns = setup->point_count + 1ul;
  kernel->steps_ps = calloc(TK_CURVES * columns, sizeof *kernel->steps_ps);
  kernel->devices = malloc((setup->device_count + 1ul) * sizeof *kernel->devices);
  if (kernel->steps_ps == NULL || kernel->devices == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < setup->device_count; i++)
    kernel->devices[i] = setup->devices[i];
  int error = block_map_new(setup->keys, setup->block_count, &kernel->map);
  if (!error)
    error =
        row_reader_init(&kernel->reader, setup->device_count, setup->as_issued, &kernel->totals);
  kernel->reader.lookup =
      (struct row_lookup){kernel->map, kernel->devices, setup->blocks, sizeof *setup->blocks};
  return error;
}

int tk_placement_new(const struct tk_placement_setup *setup, struct tk_placement **out) {
  if (setup->point_count >= UINT16_MAX || !is_cost_valid(&setup->base) ||
      !is_cost_valid(&setup->nvm) || !are_blocks_valid(setup))
    return -EINVAL;

  /* The blocks stay the caller's; the devices are copied. */
  struct tk_placement *kernel = calloc(1, sizeof *kernel);
  if (kernel == NULL)
    return -ENOMEM;
  kernel->blocks = setup->blocks;
  kernel->never = (uint16_t)setup->point_count;
  kernel->base = setup->base;
  kernel->nvm = setup->nvm;
  kernel->totals.bad_request_id = -1;
  const int error = allocate(kernel, setup);
  if (error) {
    tk_placement_free(kernel);
    return error;
  }
  *out = kernel;
  return 0;
}

static int64_t *curve_of(struct tk_placement *kernel, int order, uint8_t role) {
  const size_t row =
      order == TK_ORDER_OPTIMAL ? 2u * TK_ROLES_PLACED : (size_t)order * TK_ROLES_PLACED + role;
  return kernel->steps_ps + row * (kernel->never + 1ul);
}

/* Other and unknown requests have no curve of their own: their orders are left out. */
static int first_order(uint8_t role) {
  return role < TK_ROLES_PLACED ? TK_ORDER_HOTTEST : TK_ORDER_OPTIMAL;
}

/* A role's own curves place only blocks of that role. */
static uint16_t point_of(const struct tk_placement *kernel, const struct tk_placement_block *block,
                         int order, uint8_t role) {
  if (block == NULL || (order != TK_ORDER_OPTIMAL && block->role != role))
    return kernel->never;
  return block->point[order];
}

/* Rejects a request with which a sum could leave 64 bits: every step is a part of this bound. */
static int raise_bound(struct tk_placement *kernel, const struct issue_request *request) {
  const int op = request->is_write;
  const int64_t begin_ps = kernel->base.latency_ps[op] + kernel->base.fua_ps;
  const int64_t nvm_ps = kernel->nvm.latency_ps[op] + kernel->nvm.fua_ps;
  int64_t transfer;
  int64_t begins_ps;
  if (__builtin_mul_overflow(request->sectors,
                             kernel->base.sector_ps[op] + kernel->nvm.sector_ps[op], &transfer) ||
      __builtin_mul_overflow(block_steps_most_runs(request), begin_ps, &begins_ps) ||
      __builtin_add_overflow(kernel->bound_ps, transfer, &kernel->bound_ps) ||
      __builtin_add_overflow(kernel->bound_ps, begins_ps, &kernel->bound_ps) ||
      __builtin_add_overflow(kernel->bound_ps, nvm_ps, &kernel->bound_ps)) {
    kernel->totals.bad_request_id = request->request_id;
    return -EOVERFLOW;
  }
  return 0;
}

/* What each step of a request is. */
struct step_costs {
  int64_t base_ps;   /* before a transfer on the base device */
  int64_t nvm_ps;    /* before that on NVM */
  int64_t change_ps; /* of a sector that moves from base to NVM */
};

/* Adds the steps of a block: what it moves, and the run of the base device that begins with it
 * from where the block before it has moved until it does so itself. */
static void step(int64_t *curve, const struct step_costs *costs, int64_t sectors, uint16_t before,
                 uint16_t point) {
  curve[point] += sectors * costs->change_ps;
  if (before < point) {
    curve[before] += costs->base_ps;
    curve[point] -= costs->base_ps;
  }
}

/* Charges the blocks in each order. NVM begins with the first block to move. */
static void charge_blocks(struct tk_placement *kernel, const struct issue_request *request,
                          const struct step_costs *costs) {
  const struct tk_placement_device *device = &kernel->devices[request->device];
  const int first = first_order(request->role);
  int64_t *curves[TK_ORDERS] = {NULL};
  uint16_t before[TK_ORDERS] = {0};
  uint16_t lowest[TK_ORDERS];
  for (int order = first; order < TK_ORDERS; order++) {
    curves[order] = curve_of(kernel, order, request->role);
    lowest[order] = kernel->never;
  }
  struct block_steps steps = block_steps_of(kernel->map, device, request);
  for (bool is_first = true; block_steps_next(&steps); is_first = false) {
    const bool is_known = steps.index != BLOCK_MAP_NONE;
    kernel->totals.missing_blocks += !is_known;
    for (int order = first; order < TK_ORDERS; order++) {
      const uint16_t point =
          point_of(kernel, is_known ? &kernel->blocks[steps.index] : NULL, order, request->role);
      step(curves[order], costs, steps.end - steps.first, is_first ? point : before[order], point);
      if (is_first)
        curves[order][point] -= costs->base_ps;
      before[order] = point;
      lowest[order] = min_point(lowest[order], point);
    }
  }
  for (int order = first; order < TK_ORDERS; order++)
    curves[order][lowest[order]] += costs->nvm_ps;
}

static int charge(void *context, const struct issue_request *request) {
  struct tk_placement *kernel = context;
  const int error = raise_bound(kernel, request);
  if (error)
    return error;
  const int op = request->is_write;
  const struct tk_placement_cost *base = &kernel->base;
  const struct tk_placement_cost *nvm = &kernel->nvm;
  const struct step_costs costs = {base->latency_ps[op] + (request->is_fua ? base->fua_ps : 0),
                                   nvm->latency_ps[op] + (request->is_fua ? nvm->fua_ps : 0),
                                   nvm->sector_ps[op] - base->sector_ps[op]};
  charge_blocks(kernel, request, &costs);
  kernel->totals.base_ps[request->role] += costs.base_ps + request->sectors * base->sector_ps[op];
  kernel->totals.requests[request->role]++;
  return 0;
}

/* Flushes are charged by their number, which the totals have. */
static int count_flush(void *context, const struct issue_request *request) {
  (void)context;
  (void)request;
  return 0;
}

int tk_placement_add(struct tk_placement *kernel, const struct tk_placement_rows *rows) {
  const struct row_sink sink = {kernel, charge, count_flush};
  return row_reader_add(&kernel->reader, rows, &sink);
}

int tk_placement_finish(struct tk_placement *kernel) {
  const struct row_sink sink = {kernel, charge, count_flush};
  return row_reader_finish(&kernel->reader, &sink);
}

void tk_placement_read(const struct tk_placement *kernel, struct tk_placement_totals *totals,
                       int64_t *steps_ps) {
  *totals = kernel->totals;
  if (steps_ps == NULL)
    return;
  for (size_t curve = 0; curve < TK_CURVES; curve++)
    memcpy(steps_ps + curve * kernel->never, kernel->steps_ps + curve * (kernel->never + 1ul),
           kernel->never * sizeof *steps_ps);
}

void tk_placement_free(struct tk_placement *kernel) {
  if (kernel == NULL)
    return;
  block_map_free(kernel->map);
  row_reader_free(&kernel->reader);
  free(kernel->devices);
  free(kernel->steps_ps);
  free(kernel);
}
