#include "model/nested_placements.h"

#include <errno.h>
#include <stdlib.h>

#include "model/block_steps.h"
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
  const struct nvm_layout *layout; /* NULL where no NVM has a head that matters */
  struct nesting *nestings;
  uint32_t count;
  bool has_heads[2]; /* of base and NVM: what continues there costs less than what does not */
  struct positioned last;
};

/* A request as all nestings take it. Pairs are of base and NVM. */
struct job {
  const struct issue_request *request;
  int64_t arrival_ps;
  enum fcfs_part part;
  int64_t apart_ps[2];  /* before its transfer there, where it continues nothing */
  int64_t joined_ps[2]; /* where it does; on a disk always, beside what its head takes */
  int64_t sector_ps[2];
  int64_t first_ps; /* answer of the first member of the first nesting */
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

bool nested_has_head(const struct tk_placement_cost *cost) {
  return cost->sequential_ps[0] != cost->latency_ps[0] ||
         cost->sequential_ps[1] != cost->latency_ps[1];
}

int nested_new(const struct tk_simulation_setup *setup, const struct nvm_layout *layout,
               struct nested_placements **out) {
  struct nested_placements *set = calloc(1, sizeof *set);
  uint32_t *places = calloc(2ul * setup->scenario_count, sizeof *places);
  int error = -ENOMEM;
  if (set != NULL && places != NULL) {
    set->setup = setup;
    set->layout = layout;
    set->has_heads[0] = setup->disk.half_turn_ps > 0 || nested_has_head(&setup->placement.base);
    set->has_heads[1] = layout != NULL && nested_has_head(&setup->placement.nvm);
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

/* Books a piece of a job in its placements: its parts one after the other. */
static void book(struct nesting *nesting, struct job *job, const struct piece *piece) {
  const int64_t ps =
      (piece->base_ps > 0 ? piece->base_ps : 0) + (piece->nvm_ps > 0 ? piece->nvm_ps : 0);
  nesting->steps_ps[piece->begin] += ps;
  nesting->steps_ps[piece->end] -= ps;
  if (nesting->queues == NULL)
    return;
  const int64_t answer_ps =
      fcfs_serve(nesting->queues, job->request->device, piece, job->arrival_ps, job->part);
  if (piece->begin == 0)
    job->first_ps = answer_ps;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* Returns what a request on the base device takes before its transfer. */
static int64_t begin_ps(struct nested_placements *set, const struct job *job, int64_t head,
                        int64_t sector) {
  const int is_write = job->request->is_write;
  if (set->setup->disk.half_turn_ps == 0)
    return head == sector ? job->joined_ps[0] : job->apart_ps[0];
  struct positioned *last = &set->last;
  if (last->from != head || last->to != sector || last->is_write != is_write)
    *last = (struct positioned){head, sector, is_write,
                                spindle_position_ps(&set->setup->disk, head, sector, is_write)};
  return job->joined_ps[0] + last->ps;
}

/* Begins at `sector` on the base device in the members from `begin` to before `end`. */
static void begin_base(struct nested_placements *set, struct nesting *nesting,
                       const struct job *job, uint32_t begin, uint32_t end, int64_t sector) {
  if (!set->has_heads[0]) {
    nesting_change(nesting, begin, job->apart_ps[0], 0);
    nesting_change(nesting, end, -job->apart_ps[0], 0);
    return;
  }
  const struct heads *heads = &nesting->heads[job->request->device];
  for (uint32_t i = heads->count; begin < end;) {
    const struct run *run = &heads->runs[--i];
    if (run->member <= begin)
      continue;
    const uint32_t until = least(run->member, end);
    const int64_t ps = begin_ps(set, job, run->sector, sector);
    nesting_change(nesting, begin, ps, 0);
    nesting_change(nesting, until, -ps, 0);
    begin = until;
  }
}

/* Returns the member before which a request at `sector` of NVM continues what ended at `head`:
 * those in which no block between the two is on NVM. */
static uint32_t joined_until(const struct nested_placements *set, const struct nesting *nesting,
                             int64_t head, int64_t sector) {
  if (head == sector)
    return nesting->count;
  if (head < 0 || head > sector || head % BLOCK_SECTORS != 0 || sector % BLOCK_SECTORS != 0)
    return 0;
  uint16_t lowest[TK_ROLES];
  uint32_t until = nesting->count;
  nvm_layout_between(set->layout, nesting->order, head, sector, lowest);
  for (uint8_t role = 0; role < TK_ROLES; role++)
    until = least(until, reached(set, nesting, role, lowest[role]));
  return until;
}

/* Begins at `sector` on NVM in the members from `begin` to before `end`. */
static void begin_nvm(const struct nested_placements *set, struct nesting *nesting,
                      const struct job *job, uint32_t begin, uint32_t end, int64_t sector) {
  nesting_change(nesting, begin, 0, job->apart_ps[1]);
  nesting_change(nesting, end, 0, -job->apart_ps[1]);
  if (!set->has_heads[1])
    return;
  const int64_t less_ps = job->apart_ps[1] - job->joined_ps[1];
  const struct heads *heads = &nesting->heads[set->setup->placement.device_count];
  for (uint32_t i = heads->count; begin < end;) {
    const struct run *run = &heads->runs[--i];
    if (run->member >= end)
      continue;
    const uint32_t from = most(run->member, begin);
    const uint32_t until = least(end, joined_until(set, nesting, run->sector, sector));
    if (from < until) {
      nesting_change(nesting, from, 0, -less_ps);
      nesting_change(nesting, until, 0, less_ps);
    }
    end = from;
  }
}

/* Serves what was noted of a request piece by piece: the members that it takes the same in. On NVM
 * are parts of it from `first_nvm` on, on the base device before `end_base`. */
static void serve_changes(struct nesting *nesting, struct job *job, uint32_t first_nvm,
                          uint32_t end_base) {
  struct changes *changes = &nesting->changes;
  struct piece piece = {0, 0, -1, -1};
  int64_t base_ps = 0;
  int64_t nvm_ps = 0;
  for (uint32_t word = 0; word < nesting_words(nesting); word++) {
    for (; changes->marks[word] != 0; changes->marks[word] &= changes->marks[word] - 1) {
      const uint32_t bit = (uint32_t)__builtin_ctzll(changes->marks[word]);
      piece.end = word * NESTING_WORD_BITS + bit;
      if (piece.begin < piece.end)
        book(nesting, job, &piece);
      base_ps += changes->base_ps[piece.end];
      nvm_ps += changes->nvm_ps[piece.end];
      changes->base_ps[piece.end] = 0;
      changes->nvm_ps[piece.end] = 0;
      piece = (struct piece){piece.end, 0, piece.end < end_base ? base_ps : -1,
                             piece.end >= first_nvm ? nvm_ps : -1};
    }
  }
  piece.end = nesting->count;
  if (piece.begin < piece.end)
    book(nesting, job, &piece);
}

/* Serves a request part by part, in the order of addresses. A part that follows one on the same
 * device goes on with it; in the members in which it does not, the device begins anew. */
static void charge_one(struct nested_placements *set, struct nesting *nesting, struct job *job,
                       const struct device_split *split) {
  const struct issue_request *request = job->request;
  struct heads *base = &nesting->heads[request->device];
  struct heads *nvm = &nesting->heads[set->setup->placement.device_count];
  const struct split_part whole = {request->sector, request->sector + request->sectors, 0, 0,
                                   UINT16_MAX};
  /* No placement reaches its blocks: the usual case by far. */
  const bool is_whole = reached(set, nesting, request->role, split->lowest) == nesting->count;
  const struct split_part *parts = is_whole ? &whole : split->parts;
  const uint32_t count = is_whole ? 1 : split->count;
  uint32_t before = 0;
  uint32_t first_nvm = nesting->count;
  uint32_t end_base = 0;
  nesting_change(nesting, 0, request->sectors * job->sector_ps[0], 0);
  for (const struct split_part *part = parts; part < parts + count; part++) {
    const uint32_t moves = reached(set, nesting, request->role, part->point);
    const int64_t sectors = part->end - part->first;
    if (before < moves)
      begin_base(set, nesting, job, before, moves, part->first);
    if (moves < first_nvm)
      begin_nvm(set, nesting, job, moves, first_nvm, part->nvm_first);
    if (set->has_heads[0])
      nesting_leave_base(base, moves, part->end);
    if (moves < nesting->count) {
      nesting_change(nesting, moves, -sectors * job->sector_ps[0], sectors * job->sector_ps[1]);
      if (set->has_heads[1])
        nesting_leave_nvm(nvm, moves, part->nvm_end);
    }
    before = moves;
    first_nvm = least(first_nvm, moves);
    end_base = most(end_base, moves);
  }
  if (flush_is_due_after(request->is_write, request->is_fua)) {
    nesting_write(nesting, request->device, 0, end_base, true);
    nesting_write(nesting, set->setup->placement.device_count, first_nvm, nesting->count, true);
  }
  if (nesting->queues != NULL)
    serve_changes(nesting, job, first_nvm, end_base);
}

static void price(struct job *job, int place, const struct tk_placement_cost *cost) {
  const int op = job->request->is_write;
  const int64_t fua_ps = job->request->is_fua ? cost->fua_ps : 0;
  job->apart_ps[place] = cost->latency_ps[op] + fua_ps;
  job->joined_ps[place] = cost->sequential_ps[op] + fua_ps;
  job->sector_ps[place] = cost->sector_ps[op];
}

int64_t nested_charge(struct nested_placements *set, const struct issue_request *request,
                      const struct device_split splits[TK_ORDERS], int64_t arrival_ps) {
  int64_t first_ps = 0;
  const enum fcfs_part whole = request->is_write ? FCFS_WRITE : FCFS_READ;
  const enum fcfs_part part = request->is_preflush ? FCFS_DATA : whole;
  struct job job = {.request = request, .arrival_ps = arrival_ps, .part = part};
  price(&job, 0, &set->setup->placement.base);
  price(&job, 1, &set->setup->placement.nvm);
  for (uint32_t i = 0; i < set->count; i++) {
    struct nesting *nesting = &set->nestings[i];
    charge_one(set, nesting, &job, &splits[nesting->order]);
    first_ps = i == 0 ? job.first_ps : first_ps;
  }
  return first_ps;
}

/* Flushes base in the members before `end_base` and NVM from `first_nvm` on: piece by piece, those
 * in which both have something to flush or have not. */
static void flush_one(const struct tk_simulation_setup *setup, struct nesting *nesting,
                      struct job *job, uint32_t first_nvm, uint32_t end_base) {
  const uint32_t base = job->request->device;
  const uint32_t nvm = setup->placement.device_count;
  for (struct piece piece = {.begin = 0}; piece.begin < nesting->count; piece.begin = piece.end) {
    const bool has_base = piece.begin < end_base;
    const bool has_nvm = piece.begin >= first_nvm;
    piece.end = has_base ? end_base : nesting->count;
    if (!has_nvm)
      piece.end = least(piece.end, first_nvm);
    const bool are_written[] = {has_base && flush_has_empty(setup->flush_ps[0]) &&
                                    nesting_is_written(nesting, base, piece.begin, &piece.end),
                                has_nvm && flush_has_empty(setup->flush_ps[1]) &&
                                    nesting_is_written(nesting, nvm, piece.begin, &piece.end)};
    piece.base_ps = has_base ? setup->flush_ps[0][are_written[0]] : -1;
    piece.nvm_ps = has_nvm ? setup->flush_ps[1][are_written[1]] : -1;
    book(nesting, job, &piece);
  }
  nesting_write(nesting, base, 0, end_base, false);
  nesting_write(nesting, nvm, first_nvm, nesting->count, false);
}

int64_t nested_flush(struct nested_placements *set, const struct issue_request *request,
                     const uint16_t lowest[TK_ORDERS], const uint16_t highest[TK_ORDERS],
                     int64_t arrival_ps) {
  const enum fcfs_part part = request->is_preflush ? FCFS_PREFLUSH : FCFS_FLUSH;
  int64_t first_ps = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    struct nesting *nesting = &set->nestings[i];
    const uint32_t some = reached(set, nesting, request->role, lowest[nesting->order]);
    const uint32_t all = reached(set, nesting, request->role, highest[nesting->order]);
    struct job job = {.request = request, .arrival_ps = arrival_ps, .part = part};
    flush_one(set->setup, nesting, &job, some, all);
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
