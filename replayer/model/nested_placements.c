#include "model/nested_placements.h"

#include <errno.h>
#include <stdlib.h>

#include "model/nesting.h"

/* The last position of a head that was worked out (of zeros: true, too); most have the same. */
struct positioned {
  int64_t from;
  int64_t to;
  int is_write;
  int64_t ps;
};

struct nested_placements {
  const struct tk_simulation_setup *setup;
  struct nesting *nestings;
  uint32_t count;
  struct positioned last;
};

/* A request as all nestings take it. */
struct job {
  const struct issue_request *request;
  int64_t arrival_ps;
  enum fcfs_part part;
  uint32_t joined_base;   /* before this member it continues another on the base device */
  uint32_t joined_nvm;    /* from this member on it does so on NVM */
  int64_t on_base_ps;     /* of all of it, but for the head */
  int64_t on_nvm_ps;      /* of all of it, joined to nothing */
  int64_t joining_nvm_ps; /* added by continuing another on NVM */
  int64_t first_ps;       /* answer of the first member of the first nesting */
};

static int fill_set(struct nested_placements *set, uint32_t *last, uint32_t *chosen) {
  set->count = nesting_choose(set->setup, last, chosen);
  set->nestings = calloc(set->count, sizeof *set->nestings);
  if (set->nestings == NULL)
    return -ENOMEM;

  /* Counts first, so that each list of members is allocated at its length. */
  for (uint32_t i = 0; i < set->setup->scenario_count; i++)
    set->nestings[chosen[i]].count++;
  for (uint32_t i = 0; i < set->count; i++) {
    set->nestings[i].scenarios =
        malloc(set->nestings[i].count * sizeof *set->nestings[i].scenarios);
    if (set->nestings[i].scenarios == NULL)
      return -ENOMEM;
    set->nestings[i].count = 0;
  }
  for (uint32_t i = 0; i < set->setup->scenario_count; i++) {
    struct nesting *nesting = &set->nestings[chosen[i]];
    nesting->scenarios[nesting->count++] = i;
  }
  int error = 0;
  for (uint32_t i = 0; !error && i < set->count; i++)
    error = nesting_fill(&set->nestings[i], set->setup);
  return error;
}

int nested_new(const struct tk_simulation_setup *setup, struct nested_placements **out) {
  struct nested_placements *set = calloc(1, sizeof *set);
  uint32_t *places = calloc(2ul * setup->scenario_count, sizeof *places);
  int error = -ENOMEM;
  if (set != NULL && places != NULL) {
    set->setup = setup;
    error = fill_set(set, places, places + setup->scenario_count);
  }
  free(places);
  if (error) {
    nested_free(set);
    return error;
  }
  *out = set;
  return 0;
}

static uint32_t reached(const struct nested_placements *set, const struct nesting *nesting,
                        uint8_t role, uint16_t point) {
  const uint32_t never = set->setup->placement.point_count;
  return nesting->reached[role][point < never ? point : never];
}

/* Books a piece of a job, which takes `ps` in all, in the placements of the piece. */
static void book(struct nesting *nesting, struct job *job, const struct piece *piece, int64_t ps) {
  nesting->steps_ps[piece->begin] += ps;
  nesting->steps_ps[piece->end] -= ps;
  if (nesting->queues == NULL)
    return;
  const int64_t answer_ps =
      fcfs_serve(nesting->queues, job->request->device, piece, job->arrival_ps, job->part);
  if (piece->begin == 0)
    job->first_ps = answer_ps;
}

static void book_parts(struct nesting *nesting, struct job *job, const struct piece *piece) {
  book(nesting, job, piece,
       (piece->base_ps > 0 ? piece->base_ps : 0) + (piece->nvm_ps > 0 ? piece->nvm_ps : 0));
}

static int64_t position_ps(struct nested_placements *set, int64_t from, int64_t to, int is_write) {
  struct positioned *last = &set->last;
  if (last->from != from || last->to != to || last->is_write != is_write)
    *last = (struct positioned){from, to, is_write,
                                spindle_position_ps(&set->setup->disk, from, to, is_write)};
  return last->ps;
}

/* Brings the heads of a piece's placements to `sector`, and books it with that. */
static void seek(struct nested_placements *set, struct nesting *nesting, struct job *job,
                 const struct piece *piece, int64_t sector) {
  const struct issue_request *request = job->request;
  struct heads *heads = &nesting->heads[request->device];
  for (uint32_t begin = piece->begin; begin < piece->end;) {
    const struct run *run = &heads->runs[heads->count - 1];
    struct piece part = *piece;
    part.begin = begin;
    part.end = run->end < piece->end ? run->end : piece->end;
    part.base_ps += position_ps(set, run->sector, sector, request->is_write);
    heads->count -= run->end <= piece->end;
    book_parts(nesting, job, &part);
    begin = part.end;
  }
}

/* Leaves the heads where each placement's part of the request ended. */
static void leave(const struct nested_placements *set, struct nesting *nesting,
                  const struct issue_request *request, const struct device_split *split) {
  struct heads *heads = &nesting->heads[request->device];
  for (uint32_t i = split->count; i-- > 0;) {
    const uint32_t begin =
        i > 0 ? reached(set, nesting, request->role, split->cuts[i - 1].point) : 0;
    const uint32_t end = reached(set, nesting, request->role, split->cuts[i].point);
    if (begin < end)
      heads->runs[heads->count++] = (struct run){split->cuts[i].end, end};
  }
}

/* Charges the placements from `begin` to `end`, in which the same sectors are on the base device
 * and the request continues another on the same devices. */
static void charge_piece(struct nested_placements *set, struct nesting *nesting, struct job *job,
                         uint32_t begin, uint32_t end, const struct split_cut *cut) {
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
    seek(set, nesting, job, &piece, cut->first);
  else
    book_parts(nesting, job, &piece);
}

/* All placements have the whole request on the base disk: the usual case by far, of placements that
 * do not reach its blocks. */
static void charge_base(struct nested_placements *set, struct nesting *nesting,
                        const struct job *job) {
  const struct issue_request *request = job->request;
  struct heads *heads = &nesting->heads[request->device];
  uint32_t begin = 0;
  for (uint32_t i = heads->count; i-- > 0;) {
    const struct run *run = &heads->runs[i];
    const int64_t ps =
        job->on_base_ps + position_ps(set, run->sector, request->sector, request->is_write);
    nesting->steps_ps[begin] += ps;
    nesting->steps_ps[run->end] -= ps;
    begin = run->end;
  }
  heads->runs[0] = (struct run){request->sector + request->sectors, nesting->count};
  heads->count = 1;
}

/* All placements have the whole request on NVM. */
static void charge_nvm(struct nesting *nesting, const struct job *job) {
  nesting->steps_ps[0] += job->on_nvm_ps;
  nesting->steps_ps[job->joined_nvm] += job->joining_nvm_ps;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void charge_one(struct nested_placements *set, struct nesting *nesting, struct job *job,
                       const struct device_split *split) {
  const bool is_disk = set->setup->disk.half_turn_ps > 0;
  uint32_t begin = 0;
  if (is_disk && nesting->queues == NULL) {
    const uint8_t role = job->request->role;
    if (reached(set, nesting, role, split->cuts[0].point) == nesting->count) {
      charge_base(set, nesting, job);
      return;
    }
    if (reached(set, nesting, role, split->cuts[split->count - 1].point) == 0) {
      charge_nvm(nesting, job);
      return;
    }
  }
  for (uint32_t i = 0; i <= split->count && begin < nesting->count; i++) {
    const struct split_cut *cut = i == split->count ? NULL : &split->cuts[i];
    const uint32_t end =
        cut == NULL ? nesting->count : reached(set, nesting, job->request->role, cut->point);
    while (begin < end) {
      uint32_t until = end;
      if (begin < job->joined_base)
        until = least(until, job->joined_base);
      if (begin < job->joined_nvm)
        until = least(until, job->joined_nvm);
      charge_piece(set, nesting, job, begin, until, cut);
      begin = until;
    }
  }
  if (is_disk)
    leave(set, nesting, job->request, split);
}

/* Works out what the request takes wholly on one device, the base device's head not counted. */
static void price(const struct tk_simulation_setup *setup, struct job *job) {
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

int64_t nested_charge(struct nested_placements *set, const struct issue_request *request,
                      const struct device_split splits[TK_ORDERS], const uint16_t *before,
                      int64_t arrival_ps) {
  int64_t first_ps = 0;
  const enum fcfs_part whole = request->is_write ? FCFS_WRITE : FCFS_READ;
  const enum fcfs_part part = request->is_preflush ? FCFS_DATA : whole;
  struct job job = {.request = request, .arrival_ps = arrival_ps, .part = part};
  price(set->setup, &job);
  for (uint32_t i = 0; i < set->count; i++) {
    struct nesting *nesting = &set->nestings[i];
    const struct device_split *split = &splits[nesting->order];
    job.joined_base = 0;
    job.joined_nvm = nesting->count;
    if (before != NULL) {
      const uint16_t other = before[nesting->order];
      const uint16_t first = split->first_point;
      job.joined_base = reached(set, nesting, request->role, first < other ? first : other);
      job.joined_nvm = reached(set, nesting, request->role, first > other ? first : other);
    }
    charge_one(set, nesting, &job, split);
    first_ps = i == 0 ? job.first_ps : first_ps;
  }
  return first_ps;
}

int64_t nested_flush(struct nested_placements *set, const struct issue_request *request,
                     const uint16_t lowest[TK_ORDERS], const uint16_t highest[TK_ORDERS],
                     int64_t arrival_ps) {
  const int64_t *ps = set->setup->flush_ps;
  const enum fcfs_part part = request->is_preflush ? FCFS_PREFLUSH : FCFS_FLUSH;
  int64_t first_ps = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    struct nesting *nesting = &set->nestings[i];
    const uint32_t some = reached(set, nesting, request->role, lowest[nesting->order]);
    const uint32_t all = reached(set, nesting, request->role, highest[nesting->order]);
    const struct piece pieces[] = {
        {0, some, ps[0], -1}, {some, all, ps[0], ps[1]}, {all, nesting->count, -1, ps[1]}};
    struct job job = {.request = request, .arrival_ps = arrival_ps, .part = part};
    for (int piece = 0; piece < 3; piece++)
      if (pieces[piece].begin < pieces[piece].end)
        book(nesting, &job, &pieces[piece],
             pieces[piece].base_ps > pieces[piece].nvm_ps ? pieces[piece].base_ps
                                                          : pieces[piece].nvm_ps);
    first_ps = i == 0 ? job.first_ps : first_ps;
  }
  return first_ps;
}

int64_t nested_first_ps(const struct nested_placements *set) {
  return set->nestings[0].steps_ps[0];
}

void nested_read(const struct nested_placements *set, struct tk_simulated *results) {
  for (uint32_t i = 0; i < set->count; i++) {
    const struct nesting *nesting = &set->nestings[i];
    int64_t sum_ps = 0;
    for (uint32_t member = 0; member < nesting->count; member++) {
      struct tk_simulated *result = &results[nesting->scenarios[member]];
      sum_ps += nesting->steps_ps[member];
      *result = (struct tk_simulated){.service_ps = sum_ps};
      if (nesting->queues == NULL)
        continue;
      result->makespan_ps = fcfs_done_ps(nesting->queues, member);
      result->answer_ps = fcfs_answer_ps(nesting->queues, member);
    }
  }
}

void nested_free(struct nested_placements *set) {
  if (set == NULL)
    return;
  for (uint32_t i = 0; set->nestings != NULL && i < set->count; i++)
    nesting_free(&set->nestings[i], set->setup->placement.device_count);
  free(set->nestings);
  free(set);
}
