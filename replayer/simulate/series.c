#include "simulate/series.h"

#include <errno.h>
#include <stdlib.h>

/* Placements below `end`, down to the next run's, have their head at `sector`. */
struct run {
  int64_t sector;
  uint32_t end;
};

/* The runs of one device, the first placements' last. */
struct heads {
  struct run *runs;
  uint32_t count;
};

struct series {
  uint32_t *scenarios; /* its members */
  uint32_t count;      /* of members */
  uint16_t order;
  int64_t *steps_ps;           /* one more than members: each begins where its sum changes */
  uint32_t *reached[TK_ROLES]; /* by point: the first member in which a block of it is on NVM */
  struct heads *heads;         /* one a device */
};

struct series_set {
  const struct tk_walk_setup *setup;
  struct series *series;
  uint32_t count;
};

/* Says whether no role's NVM shrinks from a scenario to the other. */
static bool is_grown(const struct tk_scenario *before, const struct tk_scenario *after) {
  bool grown = before->order == after->order;
  for (int role = 0; role < TK_ROLES; role++)
    grown = grown && before->limit[role] <= after->limit[role];
  return grown;
}

/* Puts each scenario into the first series that it can continue; `last` and `chosen` have room for
 * all scenarios: the last one of each series, and the series of each. */
static uint32_t choose_series(const struct tk_walk_setup *setup, uint32_t *last, uint32_t *chosen) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < setup->scenario_count; i++) {
    uint32_t series = 0;
    while (series < count && !is_grown(&setup->scenarios[last[series]], &setup->scenarios[i]))
      series++;
    count += series == count;
    last[series] = i;
    chosen[i] = series;
  }
  return count;
}

static int fill_reached(struct series *series, const struct tk_walk_setup *setup) {
  const uint32_t points = setup->placement.point_count + 1;
  for (int role = 0; role < TK_ROLES; role++) {
    series->reached[role] = malloc(points * sizeof *series->reached[role]);
    if (series->reached[role] == NULL)
      return -ENOMEM;
    uint32_t member = 0;
    for (uint32_t point = 0; point < points; point++) {
      while (member < series->count &&
             setup->scenarios[series->scenarios[member]].limit[role] <= point)
        member++;
      series->reached[role][point] = member;
    }
  }
  return 0;
}

static int fill_series(struct series *series, const struct tk_walk_setup *setup) {
  const uint32_t devices = setup->placement.device_count;
  series->order = setup->scenarios[series->scenarios[0]].order;
  series->steps_ps = calloc(series->count + 1ul, sizeof *series->steps_ps);
  series->heads = calloc(devices + 1ul, sizeof *series->heads);
  if (series->steps_ps == NULL || series->heads == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; setup->disk.half_turn_ps > 0 && i < devices; i++) {
    series->heads[i].runs = malloc((series->count + 1ul) * sizeof *series->heads[i].runs);
    if (series->heads[i].runs == NULL)
      return -ENOMEM;
    series->heads[i].runs[0] = (struct run){-1, series->count};
    series->heads[i].count = 1;
  }
  return fill_reached(series, setup);
}

static int fill_set(struct series_set *set, uint32_t *last, uint32_t *chosen) {
  set->count = choose_series(set->setup, last, chosen);
  set->series = calloc(set->count, sizeof *set->series);
  if (set->series == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < set->setup->scenario_count; i++)
    set->series[chosen[i]].count++;
  for (uint32_t i = 0; i < set->count; i++) {
    set->series[i].scenarios = malloc(set->series[i].count * sizeof *set->series[i].scenarios);
    if (set->series[i].scenarios == NULL)
      return -ENOMEM;
    set->series[i].count = 0;
  }
  for (uint32_t i = 0; i < set->setup->scenario_count; i++) {
    struct series *series = &set->series[chosen[i]];
    series->scenarios[series->count++] = i;
  }
  int error = 0;
  for (uint32_t i = 0; !error && i < set->count; i++)
    error = fill_series(&set->series[i], set->setup);
  return error;
}

int series_new(const struct tk_walk_setup *setup, struct series_set **out) {
  struct series_set *set = calloc(1, sizeof *set);
  uint32_t *places = calloc(2ul * setup->scenario_count, sizeof *places);
  int error = -ENOMEM;
  if (set != NULL && places != NULL) {
    set->setup = setup;
    error = fill_set(set, places, places + setup->scenario_count);
  }
  free(places);
  if (error) {
    series_free(set);
    return error;
  }
  *out = set;
  return 0;
}

static void add(struct series *series, uint32_t begin, uint32_t end, int64_t ps) {
  series->steps_ps[begin] += ps;
  series->steps_ps[end] -= ps;
}

static uint32_t reached(const struct series_set *set, const struct series *series, uint8_t role,
                        uint16_t point) {
  const uint32_t never = set->setup->placement.point_count;
  return series->reached[role][point < never ? point : never];
}

/* Brings the heads of the placements from `begin` to `end` to `sector`. */
static void seek(const struct series_set *set, struct series *series,
                 const struct issue_request *request, int64_t sector, uint32_t begin,
                 uint32_t end) {
  struct heads *heads = &series->heads[request->device];
  while (begin < end) {
    const struct run *run = &heads->runs[heads->count - 1];
    const uint32_t until = run->end < end ? run->end : end;
    add(series, begin, until,
        spindle_position_ps(&set->setup->disk, run->sector, sector, request->is_write));
    heads->count -= run->end <= end;
    begin = until;
  }
}

/* Leaves the heads where each placement's part of the request ended. */
static void leave(const struct series_set *set, struct series *series,
                  const struct issue_request *request, const struct share *share) {
  struct heads *heads = &series->heads[request->device];
  for (uint32_t i = share->count; i-- > 0;) {
    const uint32_t begin =
        i > 0 ? reached(set, series, request->role, share->cuts[i - 1].point) : 0;
    const uint32_t end = reached(set, series, request->role, share->cuts[i].point);
    if (begin < end)
      heads->runs[heads->count++] = (struct run){share->cuts[i].end, end};
  }
}

/* What continues on a device costs it less than another request. */
static void join(const struct series_set *set, struct series *series,
                 const struct issue_request *request, uint16_t first, uint16_t before) {
  const struct tk_placement_setup *placement = &set->setup->placement;
  const int op = request->is_write;
  const uint32_t one = reached(set, series, request->role, first < before ? first : before);
  const uint32_t both = reached(set, series, request->role, first > before ? first : before);
  if (set->setup->disk.half_turn_ps == 0)
    add(series, 0, one, placement->base.sequential_ps[op] - placement->base.latency_ps[op]);
  add(series, both, series->count,
      placement->nvm.sequential_ps[op] - placement->nvm.latency_ps[op]);
}

static void charge_one(const struct series_set *set, struct series *series,
                       const struct issue_request *request, const struct share *share) {
  const struct tk_placement_cost *base = &set->setup->placement.base;
  const struct tk_placement_cost *nvm = &set->setup->placement.nvm;
  const int op = request->is_write;
  const bool is_disk = set->setup->disk.half_turn_ps > 0;
  const int64_t base_ps = (is_disk ? base->sequential_ps[op] : base->latency_ps[op]) +
                          (request->is_fua ? base->fua_ps : 0);
  const int64_t nvm_ps = nvm->latency_ps[op] + (request->is_fua ? nvm->fua_ps : 0);
  uint32_t begin = 0;
  for (uint32_t i = 0; i <= share->count && begin < series->count; i++) {
    const bool is_last = i == share->count;
    const uint32_t end =
        is_last ? series->count : reached(set, series, request->role, share->cuts[i].point);
    if (begin == end)
      continue;
    const int64_t base_sectors = is_last ? 0 : share->cuts[i].sectors;
    const int64_t nvm_sectors = request->sectors - base_sectors;
    add(series, begin, end,
        (base_sectors ? base_ps + base_sectors * base->sector_ps[op] : 0) +
            (nvm_sectors ? nvm_ps + nvm_sectors * nvm->sector_ps[op] : 0));
    if (is_disk && base_sectors)
      seek(set, series, request, share->cuts[i].first, begin, end);
    begin = end;
  }
  if (is_disk)
    leave(set, series, request, share);
}

void series_charge(struct series_set *set, const struct issue_request *request,
                   const struct share shares[TK_ORDERS], const uint16_t *before) {
  for (uint32_t i = 0; i < set->count; i++) {
    struct series *series = &set->series[i];
    const struct share *share = &shares[series->order];
    charge_one(set, series, request, share);
    if (before != NULL)
      join(set, series, request, share->first_point, before[series->order]);
  }
}

void series_flush(struct series_set *set, uint8_t role, const uint16_t lowest[TK_ORDERS],
                  const uint16_t highest[TK_ORDERS]) {
  const int64_t base_ps = set->setup->flush_ps[0];
  const int64_t nvm_ps = set->setup->flush_ps[1];
  for (uint32_t i = 0; i < set->count; i++) {
    struct series *series = &set->series[i];
    const uint32_t some = reached(set, series, role, lowest[series->order]);
    const uint32_t all = reached(set, series, role, highest[series->order]);
    add(series, 0, some, base_ps);
    add(series, some, all, base_ps > nvm_ps ? base_ps : nvm_ps);
    add(series, all, series->count, nvm_ps);
  }
}

int64_t series_first_ps(const struct series_set *set) { return set->series[0].steps_ps[0]; }

void series_read(const struct series_set *set, struct tk_walked *walked) {
  for (uint32_t i = 0; i < set->count; i++) {
    const struct series *series = &set->series[i];
    int64_t sum_ps = 0;
    for (uint32_t member = 0; member < series->count; member++) {
      sum_ps += series->steps_ps[member];
      walked[series->scenarios[member]].service_ps = sum_ps;
    }
  }
}

void series_free(struct series_set *set) {
  if (set == NULL)
    return;
  for (uint32_t i = 0; set->series != NULL && i < set->count; i++) {
    struct series *series = &set->series[i];
    for (uint32_t device = 0; series->heads != NULL && device < set->setup->placement.device_count;
         device++)
      free(series->heads[device].runs);
    for (int role = 0; role < TK_ROLES; role++)
      free(series->reached[role]);
    free(series->scenarios);
    free(series->heads);
    free(series->steps_ps);
  }
  free(set->series);
  free(set);
}
