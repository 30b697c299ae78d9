#include "model/series.h"

#include <errno.h>
#include <stdlib.h>

#include "model/lanes.h"

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
  struct lanes *lanes;         /* of members; NULL without queues */
};

/* The last position of a head that was worked out (of zeros: true, too); most have the same. */
struct positioned {
  int64_t from;
  int64_t to;
  int is_write;
  int64_t ps;
};

struct series_set {
  const struct tk_walk_setup *setup;
  struct series *series;
  uint32_t count;
  struct positioned last;
};

/* A request as the series take it. */
struct job {
  const struct issue_request *request;
  int64_t arrival_ps;
  enum lanes_part part;
  uint32_t joined_base;   /* before this member it continues another on the base device */
  uint32_t joined_nvm;    /* from this member on it does so on NVM */
  int64_t on_base_ps;     /* of all of it, but for the head */
  int64_t on_nvm_ps;      /* of all of it, joined to nothing */
  int64_t joining_nvm_ps; /* added by continuing another on NVM */
  int64_t first_ps;       /* answer of the first member of the first series */
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
  if (setup->is_open && lanes_new(series->count, devices, setup->servers, &series->lanes))
    return -ENOMEM;
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

static uint32_t reached(const struct series_set *set, const struct series *series, uint8_t role,
                        uint16_t point) {
  const uint32_t never = set->setup->placement.point_count;
  return series->reached[role][point < never ? point : never];
}

/* Books a piece of a job, which takes `ps` in all, in the placements of the piece. */
static void book(struct series *series, struct job *job, const struct piece *piece, int64_t ps) {
  series->steps_ps[piece->begin] += ps;
  series->steps_ps[piece->end] -= ps;
  if (series->lanes == NULL)
    return;
  const int64_t answer_ps =
      lanes_serve(series->lanes, job->request->device, piece, job->arrival_ps, job->part);
  if (piece->begin == 0)
    job->first_ps = answer_ps;
}

static void book_parts(struct series *series, struct job *job, const struct piece *piece) {
  book(series, job, piece,
       (piece->base_ps > 0 ? piece->base_ps : 0) + (piece->nvm_ps > 0 ? piece->nvm_ps : 0));
}

static int64_t position_ps(struct series_set *set, int64_t from, int64_t to, int is_write) {
  struct positioned *last = &set->last;
  if (last->from != from || last->to != to || last->is_write != is_write)
    *last = (struct positioned){from, to, is_write,
                                spindle_position_ps(&set->setup->disk, from, to, is_write)};
  return last->ps;
}

/* Brings the heads of a piece's placements to `sector`, and books it with that. */
static void seek(struct series_set *set, struct series *series, struct job *job,
                 const struct piece *piece, int64_t sector) {
  const struct issue_request *request = job->request;
  struct heads *heads = &series->heads[request->device];
  for (uint32_t begin = piece->begin; begin < piece->end;) {
    const struct run *run = &heads->runs[heads->count - 1];
    struct piece part = *piece;
    part.begin = begin;
    part.end = run->end < piece->end ? run->end : piece->end;
    part.base_ps += position_ps(set, run->sector, sector, request->is_write);
    heads->count -= run->end <= piece->end;
    book_parts(series, job, &part);
    begin = part.end;
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

/* Charges the placements from `begin` to `end`, in which the same sectors are on the base device
 * and the request continues another on the same devices. */
static void charge_piece(struct series_set *set, struct series *series, struct job *job,
                         uint32_t begin, uint32_t end, const struct share_cut *cut) {
  const struct issue_request *request = job->request;
  const struct tk_placement_cost *base = &set->setup->placement.base;
  const struct tk_placement_cost *nvm = &set->setup->placement.nvm;
  const int op = request->is_write;
  const bool is_disk = set->setup->disk.half_turn_ps > 0;
  const int64_t sectors = cut == NULL ? 0 : cut->sectors;
  struct piece piece = {begin, end, -1, -1};
  if (sectors > 0) {
    const bool continues = is_disk || begin < job->joined_base;
    piece.base_ps = (continues ? base->sequential_ps[op] : base->latency_ps[op]) +
                    sectors * base->sector_ps[op] + (request->is_fua ? base->fua_ps : 0);
  }
  if (sectors < request->sectors) {
    const bool continues = begin >= job->joined_nvm;
    piece.nvm_ps = (continues ? nvm->sequential_ps[op] : nvm->latency_ps[op]) +
                   (request->sectors - sectors) * nvm->sector_ps[op] +
                   (request->is_fua ? nvm->fua_ps : 0);
  }
  if (is_disk && sectors > 0)
    seek(set, series, job, &piece, cut->first);
  else
    book_parts(series, job, &piece);
}

/* All placements have the whole request on the base disk: the usual case by far, of placements that
 * do not reach its blocks. */
static void charge_base(struct series_set *set, struct series *series, const struct job *job) {
  const struct issue_request *request = job->request;
  struct heads *heads = &series->heads[request->device];
  uint32_t begin = 0;
  for (uint32_t i = heads->count; i-- > 0;) {
    const struct run *run = &heads->runs[i];
    const int64_t ps =
        job->on_base_ps + position_ps(set, run->sector, request->sector, request->is_write);
    series->steps_ps[begin] += ps;
    series->steps_ps[run->end] -= ps;
    begin = run->end;
  }
  heads->runs[0] = (struct run){request->sector + request->sectors, series->count};
  heads->count = 1;
}

/* All placements have the whole request on NVM. */
static void charge_nvm(struct series *series, const struct job *job) {
  series->steps_ps[0] += job->on_nvm_ps;
  series->steps_ps[job->joined_nvm] += job->joining_nvm_ps;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void charge_one(struct series_set *set, struct series *series, struct job *job,
                       const struct share *share) {
  const bool is_disk = set->setup->disk.half_turn_ps > 0;
  uint32_t begin = 0;
  if (is_disk && series->lanes == NULL) {
    const uint8_t role = job->request->role;
    if (reached(set, series, role, share->cuts[0].point) == series->count) {
      charge_base(set, series, job);
      return;
    }
    if (reached(set, series, role, share->cuts[share->count - 1].point) == 0) {
      charge_nvm(series, job);
      return;
    }
  }
  for (uint32_t i = 0; i <= share->count && begin < series->count; i++) {
    const struct share_cut *cut = i == share->count ? NULL : &share->cuts[i];
    const uint32_t end =
        cut == NULL ? series->count : reached(set, series, job->request->role, cut->point);
    while (begin < end) {
      uint32_t until = end;
      if (begin < job->joined_base)
        until = least(until, job->joined_base);
      if (begin < job->joined_nvm)
        until = least(until, job->joined_nvm);
      charge_piece(set, series, job, begin, until, cut);
      begin = until;
    }
  }
  if (is_disk)
    leave(set, series, job->request, share);
}

/* Works out what the request takes wholly on one device, the base device's head not counted. */
static void price(const struct tk_walk_setup *setup, struct job *job) {
  const struct issue_request *request = job->request;
  const struct tk_placement_cost *base = &setup->placement.base;
  const struct tk_placement_cost *nvm = &setup->placement.nvm;
  const int op = request->is_write;
  job->on_base_ps = base->sequential_ps[op] + request->sectors * base->sector_ps[op] +
                    (request->is_fua ? base->fua_ps : 0);
  job->on_nvm_ps = nvm->latency_ps[op] + request->sectors * nvm->sector_ps[op] +
                   (request->is_fua ? nvm->fua_ps : 0);
  job->joining_nvm_ps = nvm->sequential_ps[op] - nvm->latency_ps[op];
}

int64_t series_charge(struct series_set *set, const struct issue_request *request,
                      const struct share shares[TK_ORDERS], const uint16_t *before,
                      int64_t arrival_ps) {
  int64_t first_ps = 0;
  const enum lanes_part part = request->is_preflush ? LANES_DATA : LANES_WHOLE;
  struct job job = {.request = request, .arrival_ps = arrival_ps, .part = part};
  price(set->setup, &job);
  for (uint32_t i = 0; i < set->count; i++) {
    struct series *series = &set->series[i];
    const struct share *share = &shares[series->order];
    job.joined_base = 0;
    job.joined_nvm = series->count;
    if (before != NULL) {
      const uint16_t other = before[series->order];
      const uint16_t first = share->first_point;
      job.joined_base = reached(set, series, request->role, first < other ? first : other);
      job.joined_nvm = reached(set, series, request->role, first > other ? first : other);
    }
    charge_one(set, series, &job, share);
    first_ps = i == 0 ? job.first_ps : first_ps;
  }
  return first_ps;
}

int64_t series_flush(struct series_set *set, const struct issue_request *request,
                     const uint16_t lowest[TK_ORDERS], const uint16_t highest[TK_ORDERS],
                     int64_t arrival_ps) {
  const int64_t *ps = set->setup->flush_ps;
  const enum lanes_part part = request->is_preflush ? LANES_PREFLUSH : LANES_WHOLE;
  int64_t first_ps = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    struct series *series = &set->series[i];
    const uint32_t some = reached(set, series, request->role, lowest[series->order]);
    const uint32_t all = reached(set, series, request->role, highest[series->order]);
    const struct piece pieces[] = {
        {0, some, ps[0], -1}, {some, all, ps[0], ps[1]}, {all, series->count, -1, ps[1]}};
    struct job job = {.request = request, .arrival_ps = arrival_ps, .part = part};
    for (int piece = 0; piece < 3; piece++)
      if (pieces[piece].begin < pieces[piece].end)
        book(series, &job, &pieces[piece],
             pieces[piece].base_ps > pieces[piece].nvm_ps ? pieces[piece].base_ps
                                                          : pieces[piece].nvm_ps);
    first_ps = i == 0 ? job.first_ps : first_ps;
  }
  return first_ps;
}

int64_t series_first_ps(const struct series_set *set) { return set->series[0].steps_ps[0]; }

void series_read(const struct series_set *set, struct tk_walked *walked) {
  for (uint32_t i = 0; i < set->count; i++) {
    const struct series *series = &set->series[i];
    int64_t sum_ps = 0;
    for (uint32_t member = 0; member < series->count; member++) {
      struct tk_walked *result = &walked[series->scenarios[member]];
      sum_ps += series->steps_ps[member];
      *result = (struct tk_walked){.service_ps = sum_ps};
      if (series->lanes == NULL)
        continue;
      result->makespan_ps = lanes_done_ps(series->lanes, member);
      result->answer_ps = lanes_answer_ps(series->lanes, member);
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
    lanes_free(series->lanes);
  }
  free(set->series);
  free(set);
}
