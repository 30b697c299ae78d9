#include "model/cache_rivals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/large_pages.h"
#include "model/page_runs.h"
#include "model/rival.h"

#define PERCENT 100u
#define TIME_MAX (INT64_MAX / 4) /* sums above it end a simulation */

/* A request on one device. */
struct part {
  int64_t first; /* sectors there */
  int64_t end;
  int64_t sectors;
};

static const struct rival_policy *const policies[TK_RIVAL_KINDS] = {
    [TK_RIVAL_WRITECACHE] = &rival_writecache,
    [TK_RIVAL_DM_CACHE] = &rival_dm_cache,
    [TK_RIVAL_BCACHE] = &rival_bcache,
    [TK_RIVAL_OPEN_CAS] = &rival_open_cas,
    [TK_RIVAL_LOG] = &rival_log,
    [TK_RIVAL_SPECIAL] = &rival_special,
    [TK_RIVAL_MEMORY] = &rival_memory,
};

static bool is_setup_valid(const struct tk_rival_setup *setup) {
  return setup->kind < TK_RIVAL_KINDS && setup->mode < TK_RIVAL_MODES && setup->block_sectors > 0 &&
         setup->block_sectors % 8 == 0 && setup->bucket_blocks > 0 &&
         setup->capacity / 2 >= setup->bucket_blocks && setup->capacity < PAGE_MAX &&
         setup->block_count < PAGE_MAX && setup->low_percent <= setup->high_percent &&
         setup->high_percent <= PERCENT && setup->load > 0 &&
         flush_is_valid(setup->flush_ps[RIVAL_BASE]) &&
         flush_is_valid(setup->flush_ps[RIVAL_NVM]) &&
         (setup->disk.half_turn_ps == 0 || spindle_is_valid(&setup->disk));
}

static int allocate(struct tk_rival *rival) {
  const struct tk_rival_setup *setup = &rival->setup;
  const uint32_t most = setup->capacity < setup->block_count ? setup->capacity : setup->block_count;
  rival->devices = malloc((setup->device_count + 1ul) * sizeof *rival->devices);
  rival->heads = malloc((setup->device_count + 1ul) * sizeof *rival->heads);
  rival->is_written = calloc(setup->device_count + 1ul, sizeof *rival->is_written);
  rival->blocks = large_pages_zeroed((setup->block_count + 1ul) * sizeof *rival->blocks);
  rival->places = calloc(setup->block_count + 1ul, sizeof *rival->places);
  rival->slots = calloc(setup->block_count + 1ul, sizeof *rival->slots);
  rival->free_slots = malloc((most + 1ul) * sizeof *rival->free_slots);
  rival->streams = rival_streams_new();
  rival->idle = calloc(setup->device_count + 1ul, sizeof *rival->idle);
  if (rival->devices == NULL || rival->heads == NULL || rival->is_written == NULL ||
      rival->blocks == NULL || rival->places == NULL || rival->slots == NULL ||
      rival->free_slots == NULL || rival->streams == NULL || rival->idle == NULL)
    return -ENOMEM;
  memcpy(rival->devices, setup->devices, setup->device_count * sizeof *rival->devices);
  for (uint32_t i = 0; i <= setup->device_count; i++)
    rival->heads[i] = -1;
  /* More slots than blocks are never used; the first slot is taken first. */
  rival->free_count = most;
  for (uint32_t i = 0; i < most; i++)
    rival->free_slots[i] = most - 1 - i;
  int error = page_ring_init(&rival->clean, RIVAL_CLEAN, most, 2 * most + 1);
  if (!error)
    error = page_ring_init(&rival->dirty, RIVAL_DIRTY, most, 2 * most + 1);
  if (!error)
    error = block_map_new(setup->keys, setup->block_count, &rival->map);
  if (!error)
    error = row_reader_init(&rival->reader, setup->device_count, setup->as_issued, &rival->totals);
  if (!error && rival->policy->make != NULL)
    error = rival->policy->make(rival);
  return error;
}

int tk_rival_new(const struct tk_rival_setup *setup, struct tk_rival **out) {
  if (!is_setup_valid(setup))
    return -EINVAL;
  struct tk_rival *rival = calloc(1, sizeof *rival);
  if (rival == NULL)
    return -ENOMEM;
  rival->setup = *setup;
  rival->policy = policies[setup->kind];
  rival->totals.bad_request_id = -1;
  rival->written_ns = INT64_MAX;
  const int error = allocate(rival);
  if (error) {
    tk_rival_free(rival);
    return error;
  }
  *out = rival;
  return 0;
}

/* The place of a device among heads: of base by device, then of NVM. */
static uint32_t place_of(const struct tk_rival *rival, int where, uint32_t device) {
  return where == RIVAL_BASE ? device : rival->setup.device_count;
}

int64_t rival_transfer_ps(struct tk_rival *rival, int where, uint32_t device,
                          const struct rival_piece *piece, bool is_fua) {
  const bool is_base = where == RIVAL_BASE;
  const struct tk_placement_cost *cost = is_base ? &rival->setup.base : &rival->setup.nvm;
  int64_t *head = &rival->heads[place_of(rival, where, device)];
  const int op = piece->is_write;
  int64_t ps = *head == piece->first ? cost->sequential_ps[op] : cost->latency_ps[op];
  if (is_base && rival->setup.disk.half_turn_ps > 0)
    ps = cost->sequential_ps[op] + spindle_position_ps(&rival->setup.disk, *head, piece->first, op);
  *head = piece->end;
  return ps + (piece->end - piece->first) * cost->sector_ps[op] + (is_fua ? cost->fua_ps : 0);
}

void rival_background(struct tk_rival *rival, int where, uint32_t block, bool is_write) {
  const struct rival_place *place = &rival->places[block];
  const int64_t sectors = rival->setup.block_sectors;
  const int64_t first = where == RIVAL_BASE ? place->sector : rival->slots[block] * sectors;
  const struct rival_piece piece = {
      .block = block, .first = first, .end = first + sectors, .is_write = is_write};
  const int64_t ps = rival_transfer_ps(rival, where, place->device, &piece, false);
  rival->counts.background_ps[where] += ps;
  rival->is_written[place_of(rival, where, place->device)] |= is_write;
  if (where == RIVAL_BASE)
    rival_idle_add(&rival->idle[place->device], ps * rival->setup.load);
}

int64_t rival_flush_ps(struct tk_rival *rival, int where, uint32_t device) {
  bool *is_written = &rival->is_written[place_of(rival, where, device)];
  return rival->setup.flush_ps[where][flush_device(is_written)];
}

void rival_background_flush(struct tk_rival *rival) {
  for (uint32_t device = 0; device < rival->setup.device_count; device++) {
    if (!rival->is_written[device])
      continue;
    const int64_t ps = rival_flush_ps(rival, RIVAL_BASE, device);
    rival->counts.background_ps[RIVAL_BASE] += ps;
    rival_idle_add(&rival->idle[device], ps * rival->setup.load);
  }
}

int64_t rival_commit_ps(struct tk_rival *rival) {
  /* Metadata have a place of their own, before all slots. */
  const struct rival_piece piece = {.first = -8, .end = 0, .is_write = true};
  rival->is_changed = false;
  rival->is_dirtied = false;
  rival->counts.commits++;
  return rival_transfer_ps(rival, RIVAL_NVM, 0, &piece, false);
}

/* Returns whether block `next` follows another on its device. */
static bool follows(const struct tk_rival *rival, uint32_t next, uint32_t block) {
  return next < rival->setup.block_count && rival_is_dirty(rival, next) &&
         rival->places[next].device == rival->places[block].device &&
         rival->places[next].sector == rival->places[block].sector + rival->setup.block_sectors;
}

void rival_write_out(struct tk_rival *rival, uint32_t percent) {
  const uint64_t most = (uint64_t)rival->setup.capacity * percent / PERCENT;
  while (rival->dirty.count > most) {
    uint32_t block = page_ring_oldest(&rival->dirty, rival->blocks);
    bool is_more;
    do {
      rival_clean(rival, block);
      rival_drop(rival, block);
      is_more = follows(rival, block + 1, block);
      block++;
    } while (is_more);
  }
}

/* Returns what is committed with a request, or a flush (`is_forced`). */
static int64_t commit_ps(struct tk_rival *rival, bool is_forced) {
  const enum rival_commit when = rival->policy->commit;
  if (is_forced) {
    rival->written_ns = INT64_MAX;
    rival->uncommitted = 0;
  }
  if (!(when == COMMIT_FORCED && is_forced && (rival->is_changed || rival->is_dirtied)) &&
      !(when == COMMIT_DIRTIED && rival->is_dirtied))
    return 0;
  const int64_t ps = rival_commit_ps(rival);
  rival->counts.busy_ps[RIVAL_NVM] += ps;
  return ps;
}

/* Returns whether the sums are small enough to go on. */
static bool is_bounded(const struct tk_rival *rival) {
  const struct tk_rival_counts *counts = &rival->counts;
  const int64_t most = TIME_MAX / rival->setup.load;
  return counts->response_ps < most && counts->background_ps[RIVAL_BASE] < most &&
         counts->background_ps[RIVAL_NVM] < TIME_MAX;
}

static void begin_request(struct tk_rival *rival, const struct issue_request *request) {
  rival->device = request->device;
  rival_idle_until(&rival->idle[request->device], rival->now_ns);
  if (rival->policy->begin != NULL)
    rival->policy->begin(rival);
}

static int end_request(struct tk_rival *rival, const struct issue_request *request,
                       int64_t base_ps) {
  struct rival_idle *idle = &rival->idle[request->device];
  rival->counts.delayed_ps += rival_idle_serve(idle, base_ps * rival->setup.load);
  if (rival->policy->settle != NULL)
    rival->policy->settle(rival);
  rival->counts.delayed_ps +=
      rival_idle_hurry(idle, (int64_t)rival->setup.capacity - rival->dirty.count);
  if (is_bounded(rival))
    return 0;
  rival->totals.bad_request_id = request->request_id;
  return -EOVERFLOW;
}

/* Adds the next sectors of a request to its part on one device. */
static void extend(struct part *part, int64_t first, int64_t end) {
  part->first = part->sectors == 0 ? first : part->first;
  part->end = end;
  part->sectors += end - first;
}

/* Charges one device with its part of a request, whose setup it pays once. */
static int64_t charge(struct tk_rival *rival, int where, const struct issue_request *request,
                      const struct part *part) {
  if (part->sectors == 0)
    return 0;
  const struct rival_piece piece = {
      .first = part->first, .end = part->first + part->sectors, .is_write = request->is_write};
  const int64_t ps = rival_transfer_ps(rival, where, request->device, &piece, request->is_fua);
  const uint32_t place = place_of(rival, where, request->device);
  rival->heads[place] = part->end;
  rival->is_written[place] |= flush_is_due_after(request->is_write, request->is_fua);
  rival->counts.busy_ps[where] += ps;
  return ps;
}

/* Looks a block up, if it does not follow the one before, and remembers where it is. */
static uint32_t find(struct tk_rival *rival, uint32_t device, int64_t number, uint32_t before,
                     uint32_t *following) {
  const struct tk_placement_device *keys = &rival->devices[device];
  const int64_t within = number - keys->first_block;
  uint32_t block = BLOCK_MAP_NONE;
  if (*following > 1) {
    block = before + 1;
    (*following)--;
  } else if (within >= 0 && within < keys->blocks) {
    block = block_map_find(rival->map, keys->first_key + within, following);
  }
  if (block == BLOCK_MAP_NONE)
    rival->totals.missing_blocks++;
  else
    rival->places[block] = (struct rival_place){number * rival->setup.block_sectors, device};
  return block;
}

static void count(struct tk_rival *rival, const struct rival_piece *piece, bool was_cached,
                  uint32_t to) {
  struct tk_rival_counts *counts = &rival->counts;
  counts->reads += !piece->is_write;
  counts->read_hits += !piece->is_write && to == TO_NVM;
  counts->writes += piece->is_write;
  counts->write_hits += piece->is_write && was_cached;
}

static int transfer(void *context, const struct issue_request *request) {
  struct tk_rival *rival = context;
  const int64_t size = rival->setup.block_sectors;
  const int64_t end = request->sector + request->sectors;
  struct rival_piece piece = {
      .end = request->sector,
      .is_write = request->is_write,
      .is_sync = request->is_fua || request->is_preflush || request->role == TK_ROLE_JOURNAL,
      .role = request->role,
      .is_meta = request->is_meta,
      .is_small = request->sectors <= rival->setup.small_sectors,
      .is_going = rival_streams_add(rival->streams, request, rival->setup.cutoff_sectors)};
  struct part parts[2] = {{0}, {0}};
  bool is_mirrored = false;
  int64_t base_ps = 0;
  uint32_t following = 0;
  rival->now_ns = request->issue_ns > rival->now_ns ? request->issue_ns : rival->now_ns;
  rival->totals.requests[request->role]++;
  begin_request(rival, request);

  /* Block by block, as the cache decides; runs of sectors on the base are one part each. */
  while (piece.end < end) {
    const int64_t number = piece.end / size;
    const int64_t block_end = (number + 1) * size;
    piece.first = piece.end;
    piece.end = block_end < end ? block_end : end;
    piece.block = find(rival, request->device, number, piece.block, &following);
    const bool was_cached = piece.block != BLOCK_MAP_NONE && rival_is_cached(rival, piece.block);
    const uint32_t to =
        piece.block == BLOCK_MAP_NONE ? TO_BASE : rival->policy->take(rival, &piece);
    const int64_t nvm = piece.block == BLOCK_MAP_NONE ? 0 : rival->slots[piece.block] * size;
    count(rival, &piece, was_cached, to);
    is_mirrored = is_mirrored || to == (TO_BASE | TO_NVM);
    /* Base pays for each run of sectors, as in placement.h. */
    if (to & TO_BASE && parts[RIVAL_BASE].end != piece.first) {
      base_ps += charge(rival, RIVAL_BASE, request, &parts[RIVAL_BASE]);
      parts[RIVAL_BASE] = (struct part){0};
    }
    if (to & TO_BASE)
      extend(&parts[RIVAL_BASE], piece.first, piece.end);
    if (to & TO_NVM)
      extend(&parts[RIVAL_NVM], nvm + piece.first % size,
             nvm + piece.first % size + piece.end - piece.first);
  }
  base_ps += charge(rival, RIVAL_BASE, request, &parts[RIVAL_BASE]);
  const int64_t nvm_ps = charge(rival, RIVAL_NVM, request, &parts[RIVAL_NVM]);
  const int64_t longer = base_ps > nvm_ps ? base_ps : nvm_ps;
  rival->counts.response_ps +=
      (is_mirrored ? longer : base_ps + nvm_ps) + commit_ps(rival, request->is_fua);
  return end_request(rival, request, base_ps);
}

static int flush(void *context, const struct issue_request *request) {
  struct tk_rival *rival = context;
  int64_t took_ps[2] = {0, 0};
  begin_request(rival, request);
  for (int where = RIVAL_BASE; where <= RIVAL_NVM; where++) {
    if (!(rival->policy->flushed & (where == RIVAL_BASE ? TO_BASE : TO_NVM)))
      continue;
    took_ps[where] = rival_flush_ps(rival, where, request->device);
    rival->counts.busy_ps[where] += took_ps[where];
  }
  const int64_t ps = took_ps[took_ps[RIVAL_BASE] > took_ps[RIVAL_NVM] ? RIVAL_BASE : RIVAL_NVM];
  rival->counts.response_ps += ps + commit_ps(rival, true);
  return end_request(rival, request, took_ps[RIVAL_BASE]);
}

int tk_rival_add(struct tk_rival *rival, const struct tk_placement_rows *rows) {
  const struct row_sink sink = {rival, transfer, flush};
  return row_reader_add(&rival->reader, rows, &sink);
}

int tk_rival_finish(struct tk_rival *rival) {
  const struct row_sink sink = {rival, transfer, flush};
  return row_reader_finish(&rival->reader, &sink);
}

void tk_rival_read(const struct tk_rival *rival, struct tk_placement_totals *totals,
                   struct tk_rival_counts *counts) {
  *totals = rival->totals;
  if (counts == NULL)
    return;
  *counts = rival->counts;
  counts->dirty = rival->dirty.count;
  for (uint32_t i = 0; i < rival->setup.device_count; i++)
    counts->delayed_ps += rival->idle[i].owed_ps;
  counts->delayed_ps /= rival->setup.load;
}

void tk_rival_free(struct tk_rival *rival) {
  if (rival == NULL)
    return;
  if (rival->policy->free != NULL)
    rival->policy->free(rival);
  block_map_free(rival->map);
  row_reader_free(&rival->reader);
  page_ring_free(&rival->clean);
  page_ring_free(&rival->dirty);
  rival_streams_free(rival->streams);
  free(rival->idle);
  free(rival->devices);
  free(rival->heads);
  free(rival->is_written);
  free(rival->blocks);
  free(rival->places);
  free(rival->slots);
  free(rival->free_slots);
  free(rival);
}
