#include "simulate/walk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/block_map.h"
#include "simulate/intake.h"
#include "simulate/series.h"
#include "simulate/share.h"

#define BLOCK_SECTORS 8
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

struct tk_walk {
  struct tk_walk_setup setup;
  struct block_map *map;
  struct intake intake;
  struct share shares[TK_ORDERS];
  struct reach reaches[TK_ROLES];
  struct series_set *series; /* NULL with queues: then each placement has its own state */
  struct end *ends;          /* one a traced device */
  int64_t *heads;            /* one a device and scenario */
  int64_t *base_free_ps;     /* one a device, scenario and server: when it has served all */
  int64_t *nvm_free_ps;      /* one a scenario and server */
  struct tk_walked *walked;  /* one a scenario */
  struct tk_walk_totals totals;
  int64_t first_ns;   /* of the first arrival, -1 before */
  int64_t arrival_ps; /* of this request, since the first */
  int64_t bound_ps;   /* no sum of service times can exceed this */
};

/* One part of a job: the time that it takes on each device, -1 where it has none. */
struct parts {
  int64_t base_ps;
  int64_t nvm_ps;
};

static bool is_setup_valid(const struct tk_walk_setup *setup) {
  bool is_valid = setup->scenario_count > 0 && setup->placement.point_count < UINT16_MAX &&
                  setup->flush_ps[0] >= 0 && setup->flush_ps[1] >= 0 &&
                  (setup->disk.half_turn_ps == 0 || spindle_is_valid(&setup->disk));
  for (int i = 0; i < 2; i++)
    is_valid = is_valid && setup->servers[i] > 0 && setup->servers[i] <= SERVERS_MAX;
  for (uint32_t i = 0; is_valid && i < setup->scenario_count; i++) {
    const struct tk_scenario *scenario = &setup->scenarios[i];
    is_valid =
        scenario->order < TK_ORDERS && (i == 0 || scenario->order >= setup->scenarios[i - 1].order);
  }
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

/* With queues each placement has its own heads and servers. */
static int allocate_queues(struct tk_walk *walk) {
  const size_t devices = walk->setup.placement.device_count;
  const size_t lanes = walk->setup.scenario_count;
  walk->heads = malloc((devices * lanes + 1) * sizeof *walk->heads);
  walk->base_free_ps =
      calloc(devices * lanes * walk->setup.servers[0] + 1, sizeof *walk->base_free_ps);
  walk->nvm_free_ps = calloc(lanes * walk->setup.servers[1], sizeof *walk->nvm_free_ps);
  if (walk->heads == NULL || walk->base_free_ps == NULL || walk->nvm_free_ps == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < devices * lanes; i++)
    walk->heads[i] = -1;
  return 0;
}

static int allocate(struct tk_walk *walk) {
  const struct tk_placement_setup *placement = &walk->setup.placement;
  walk->ends = malloc((placement->device_count + 1ul) * sizeof *walk->ends);
  walk->walked = calloc(walk->setup.scenario_count, sizeof *walk->walked);
  if (walk->ends == NULL || walk->walked == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < placement->device_count; i++)
    walk->ends[i].sector = -1;
  int error = walk->setup.is_open ? allocate_queues(walk) : series_new(&walk->setup, &walk->series);
  if (!error)
    error = block_map_new(placement->keys, placement->block_count, &walk->map);
  if (error)
    return error;
  return intake_init(&walk->intake, placement->device_count, placement->as_issued,
                     &walk->totals.placement);
}

int tk_walk_new(const struct tk_walk_setup *setup, struct tk_walk **out) {
  if (!is_setup_valid(setup))
    return -EINVAL;
  struct tk_walk *walk = calloc(1, sizeof *walk);
  if (walk == NULL)
    return -ENOMEM;
  walk->setup = *setup;
  walk->first_ns = -1;
  walk->totals.placement.bad_request_id = -1;
  find_reaches(walk);
  const int error = allocate(walk);
  if (error) {
    tk_walk_free(walk);
    return error;
  }
  *out = walk;
  return 0;
}

/* Gives a job to the server that is free first; returns when it is done. */
static int64_t serve(int64_t *free_ps, uint32_t servers, int64_t arrival_ps, int64_t service_ps) {
  uint32_t first = 0;
  for (uint32_t i = 1; i < servers; i++)
    first = free_ps[i] < free_ps[first] ? i : first;
  const int64_t start_ps = free_ps[first] > arrival_ps ? free_ps[first] : arrival_ps;
  return free_ps[first] = start_ps + service_ps;
}

/* Books a job on a placement: both devices begin their parts when they can. */
static void book(struct tk_walk *walk, uint32_t lane, const struct issue_request *request,
                 struct parts parts, int64_t service_ps) {
  struct tk_walked *walked = &walk->walked[lane];
  walked->service_ps += service_ps;
  if (lane == 0)
    walk->totals.role_service_ps[request->role] += service_ps;
  const uint32_t *servers = walk->setup.servers;
  const size_t place = ((size_t)request->device * walk->setup.scenario_count + lane) * servers[0];
  int64_t end_ps = walk->arrival_ps;
  if (parts.base_ps >= 0)
    end_ps = serve(walk->base_free_ps + place, servers[0], walk->arrival_ps, parts.base_ps);
  if (parts.nvm_ps >= 0) {
    const int64_t nvm_end_ps = serve(walk->nvm_free_ps + (size_t)lane * servers[1], servers[1],
                                     walk->arrival_ps, parts.nvm_ps);
    end_ps = nvm_end_ps > end_ps ? nvm_end_ps : end_ps;
  }
  walked->makespan_ps = end_ps > walked->makespan_ps ? end_ps : walked->makespan_ps;
  add_wide(&walked->answer_ps, end_ps - walk->arrival_ps);
  if (lane == 0)
    add_wide(&walk->totals.role_answer_ps[request->role], end_ps - walk->arrival_ps);
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

/* Counts a job, and refuses it if with it a time could leave 64 bits. */
static int arrive(struct tk_walk *walk, const struct issue_request *request, int64_t longest_ps) {
  int64_t end_ps;
  walk->totals.jobs++;
  if ((!walk->setup.is_open || set_clock(walk, request->issue_ns)) &&
      !__builtin_add_overflow(walk->bound_ps, longest_ps, &walk->bound_ps) &&
      !__builtin_add_overflow(walk->bound_ps, walk->arrival_ps, &end_ps))
    return 0;
  walk->totals.placement.bad_request_id = request->request_id;
  return -EOVERFLOW;
}

static int flush(void *context, const struct issue_request *request) {
  struct tk_walk *walk = context;
  const int64_t base_ps = walk->setup.flush_ps[0];
  const int64_t nvm_ps = walk->setup.flush_ps[1];
  const int64_t both_ps = base_ps > nvm_ps ? base_ps : nvm_ps;
  const int error = arrive(walk, request, both_ps);
  if (error)
    return error;
  const struct reach *reach = &walk->reaches[request->role];
  if (walk->series != NULL) {
    series_flush(walk->series, request->role, reach->lowest, reach->highest);
    walk->totals.role_service_ps[request->role] += base_ps;
    return 0;
  }
  for (uint32_t lane = 0; lane < walk->setup.scenario_count; lane++) {
    const struct tk_scenario *scenario = &walk->setup.scenarios[lane];
    const uint16_t limit = scenario->limit[request->role];
    if (limit <= reach->lowest[scenario->order])
      book(walk, lane, request, (struct parts){base_ps, -1}, base_ps);
    else if (limit <= reach->highest[scenario->order])
      book(walk, lane, request, (struct parts){base_ps, nvm_ps}, both_ps);
    else
      book(walk, lane, request, (struct parts){-1, nvm_ps}, nvm_ps);
  }
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

static int find_shares(struct tk_walk *walk, const struct issue_request *request) {
  const struct tk_placement_device *device = &walk->setup.placement.devices[request->device];
  const int64_t end = request->sector + request->sectors;
  uint32_t index = BLOCK_MAP_NONE;
  uint32_t following = 0;
  for (int order = 0; order < TK_ORDERS; order++)
    share_clear(&walk->shares[order]);
  for (int64_t sector = request->sector; sector < end;) {
    const int64_t block = sector / BLOCK_SECTORS;
    const int64_t block_end = (block + 1) * BLOCK_SECTORS < end ? (block + 1) * BLOCK_SECTORS : end;
    const int64_t within = block - device->first_block;
    if (following > 1) {
      following--;
      index++;
    } else {
      following = 0;
      const bool is_inside = within >= 0 && within < device->blocks;
      index = is_inside ? block_map_find(walk->map, device->first_key + within, &following)
                        : BLOCK_MAP_NONE;
    }
    following = index == BLOCK_MAP_NONE ? 0 : following;
    walk->totals.placement.missing_blocks += index == BLOCK_MAP_NONE;
    for (int order = 0; order < TK_ORDERS; order++) {
      const uint16_t point = point_of(walk, index, order, request->role);
      const int error = share_add(&walk->shares[order], point, sector, block_end);
      if (error)
        return error;
    }
    sector = block_end;
  }
  for (int order = 0; order < TK_ORDERS; order++)
    share_finish(&walk->shares[order]);
  return 0;
}

static int64_t base_part_ps(struct tk_walk *walk, uint32_t lane,
                            const struct issue_request *request, const struct share_cut *cut,
                            bool continues) {
  const struct tk_placement_cost *cost = &walk->setup.placement.base;
  const int op = request->is_write;
  const int64_t rest_ps = cut->sectors * cost->sector_ps[op] + (request->is_fua ? cost->fua_ps : 0);
  if (walk->setup.disk.half_turn_ps == 0)
    return (continues ? cost->sequential_ps[op] : cost->latency_ps[op]) + rest_ps;
  int64_t *head = &walk->heads[(size_t)request->device * walk->setup.scenario_count + lane];
  const int64_t position_ps = spindle_position_ps(&walk->setup.disk, *head, cut->first, op);
  *head = cut->end;
  return cost->sequential_ps[op] + position_ps + rest_ps;
}

static int64_t nvm_part_ps(const struct tk_walk *walk, const struct issue_request *request,
                           int64_t sectors, bool continues) {
  const struct tk_placement_cost *cost = &walk->setup.placement.nvm;
  const int op = request->is_write;
  return (continues ? cost->sequential_ps[op] : cost->latency_ps[op]) +
         sectors * cost->sector_ps[op] + (request->is_fua ? cost->fua_ps : 0);
}

static void charge_lane(struct tk_walk *walk, uint32_t lane, const struct issue_request *request,
                        const uint16_t *before) {
  const struct tk_scenario *scenario = &walk->setup.scenarios[lane];
  const struct share *share = &walk->shares[scenario->order];
  const uint16_t limit = scenario->limit[request->role];
  const bool was_nvm = before != NULL && before[scenario->order] < limit;
  const bool was_base = before != NULL && before[scenario->order] >= limit;
  const uint32_t cut = share_find(share, limit);
  const int64_t base_sectors = cut < share->count ? share->cuts[cut].sectors : 0;
  const bool joins_base = was_base && share->first_point >= limit;
  const bool joins_nvm = was_nvm && share->first_point < limit;
  struct parts parts = {-1, -1};
  if (base_sectors > 0)
    parts.base_ps = base_part_ps(walk, lane, request, &share->cuts[cut], joins_base);
  if (base_sectors < request->sectors)
    parts.nvm_ps = nvm_part_ps(walk, request, request->sectors - base_sectors, joins_nvm);
  const int64_t service_ps =
      (parts.base_ps > 0 ? parts.base_ps : 0) + (parts.nvm_ps > 0 ? parts.nvm_ps : 0);
  book(walk, lane, request, parts, service_ps);
}

static void charge(struct tk_walk *walk, const struct issue_request *request,
                   const uint16_t *before) {
  if (walk->series == NULL) {
    for (uint32_t lane = 0; lane < walk->setup.scenario_count; lane++)
      charge_lane(walk, lane, request, before);
    return;
  }
  const int64_t earlier_ps = series_first_ps(walk->series);
  series_charge(walk->series, request, walk->shares, before);
  walk->totals.role_service_ps[request->role] += series_first_ps(walk->series) - earlier_ps;
}

/* Returns the longest that a request can take on both devices, -1 when 64 bits cannot hold it. */
static int64_t longest_ps(const struct tk_walk *walk, const struct issue_request *request) {
  const struct tk_placement_cost *base = &walk->setup.placement.base;
  const struct tk_placement_cost *nvm = &walk->setup.placement.nvm;
  const int op = request->is_write;
  const bool is_disk = walk->setup.disk.half_turn_ps > 0;
  const int64_t fixed_ps = base->latency_ps[op] + base->fua_ps + nvm->latency_ps[op] + nvm->fua_ps +
                           (is_disk ? spindle_longest_ps(&walk->setup.disk) : 0);
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
    error = find_shares(walk, request);
  if (error)
    return error;
  struct end *end = &walk->ends[request->device];
  const bool is_sequential = end->sector == request->sector && end->role == request->role;
  charge(walk, request, is_sequential ? end->point : NULL);
  end->sector = request->sector + request->sectors;
  end->role = request->role;
  for (int order = 0; order < TK_ORDERS; order++)
    end->point[order] = walk->shares[order].last_point;
  walk->totals.placement.requests[request->role]++;
  if (walk->setup.disk.half_turn_ps > 0)
    walk->totals.beyond += end->sector > walk->setup.disk.capacity_sectors;
  return 0;
}

int tk_walk_add(struct tk_walk *walk, const struct tk_placement_rows *rows) {
  const struct intake_sink sink = {walk, transfer, flush};
  return intake_add(&walk->intake, rows, &sink);
}

int tk_walk_finish(struct tk_walk *walk) {
  const struct intake_sink sink = {walk, transfer, flush};
  return intake_finish(&walk->intake, &sink);
}

void tk_walk_read(const struct tk_walk *walk, struct tk_walk_totals *totals,
                  struct tk_walked *walked) {
  *totals = walk->totals;
  totals->span_ps = walk->arrival_ps;
  if (walked == NULL)
    return;
  memcpy(walked, walk->walked, walk->setup.scenario_count * sizeof *walked);
  if (walk->series != NULL)
    series_read(walk->series, walked);
}

void tk_walk_free(struct tk_walk *walk) {
  if (walk == NULL)
    return;
  block_map_free(walk->map);
  series_free(walk->series);
  intake_free(&walk->intake);
  for (int order = 0; order < TK_ORDERS; order++)
    share_free(&walk->shares[order]);
  free(walk->ends);
  free(walk->heads);
  free(walk->base_free_ps);
  free(walk->nvm_free_ps);
  free(walk->walked);
  free(walk);
}
