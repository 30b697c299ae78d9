#include "model/ledger.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/block_map.h"
#include "model/block_steps.h"
#include "model/row_reader.h"

enum { BASE, ON_NVM };

struct tk_ledger {
  struct tk_ledger_setup setup;
  struct block_map *map;
  struct tk_placement_device *devices;
  uint32_t *ranks; /* of blocks on NVM: how many lie there before it */
  int64_t *heads;  /* TK_LEDGERS rows, of the base device by traced device: one past the last sector
                      served, -1 before the first */
  int64_t nvm_head; /* the same of NVM, in its sectors */
  bool *is_written; /* as heads, then NVM: something to flush is on it */
  struct row_reader reader;
  struct tk_ledger_counts counts[TK_LEDGERS];
  struct tk_wide *position_ps; /* TK_LEDGERS rows of disk_count */
  struct tk_placement_totals totals;
};

/* The part of a request that one device serves at once. */
struct part {
  int64_t first;
  int64_t sectors; /* 0: none */
};

static bool is_setup_valid(const struct tk_ledger_setup *setup) {
  for (uint32_t i = 0; i < setup->disk_count; i++)
    if (!spindle_is_valid(&setup->disks[i]))
      return false;
  for (int role = 0; role < TK_ROLES; role++)
    if (setup->placed[role] >= TK_PLACED_KINDS)
      return false;
  for (uint32_t i = 0; i < setup->block_count; i++)
    if (setup->on_nvm[i] > TK_ROLES)
      return false;
  return true;
}

/* Lays NVM out as nvm_layout.h says: role by role, each role's blocks by address. */
static void rank_by_role(struct tk_ledger *ledger) {
  const struct tk_ledger_setup *setup = &ledger->setup;
  uint32_t counts[TK_ROLES + 1] = {0}; /* by what on_nvm says */
  uint32_t next[TK_ROLES + 1] = {0};
  for (uint32_t i = 0; i < setup->block_count; i++)
    counts[setup->on_nvm[i]]++;
  for (int role = 1; role < TK_ROLES; role++)
    next[role + 1] = next[role] + counts[role];
  for (uint32_t i = 0; i < setup->block_count; i++)
    ledger->ranks[i] = next[setup->on_nvm[i]]++;
}

static int allocate(struct tk_ledger *ledger) {
  const struct tk_ledger_setup *setup = &ledger->setup;
  ledger->devices = malloc((setup->device_count + 1ul) * sizeof *ledger->devices);
  ledger->ranks = malloc((setup->block_count + 1ul) * sizeof *ledger->ranks);
  ledger->heads = malloc(TK_LEDGERS * (setup->device_count + 1ul) * sizeof *ledger->heads);
  ledger->is_written =
      malloc((TK_LEDGERS * (size_t)setup->device_count + 1) * sizeof *ledger->is_written);
  ledger->position_ps =
      calloc(TK_LEDGERS * (size_t)setup->disk_count + 1, sizeof *ledger->position_ps);
  if (ledger->devices == NULL || ledger->ranks == NULL || ledger->heads == NULL ||
      ledger->is_written == NULL || ledger->position_ps == NULL)
    return -ENOMEM;
  rank_by_role(ledger);
  for (uint32_t i = 0; i < setup->device_count; i++)
    ledger->devices[i] = setup->devices[i];
  int error = block_map_new(setup->keys, setup->block_count, &ledger->map);
  if (!error)
    error =
        row_reader_init(&ledger->reader, setup->device_count, setup->as_issued, &ledger->totals);
  ledger->reader.lookup =
      (struct row_lookup){ledger->map, ledger->devices, setup->on_nvm, sizeof *setup->on_nvm};
  return error;
}

int tk_ledger_new(const struct tk_ledger_setup *setup, struct tk_ledger **out) {
  if (!is_setup_valid(setup))
    return -EINVAL;
  struct tk_ledger *ledger = calloc(1, sizeof *ledger);
  if (ledger == NULL)
    return -ENOMEM;
  ledger->setup = *setup;
  const int error = allocate(ledger);
  if (error) {
    tk_ledger_free(ledger);
    return error;
  }
  tk_ledger_restart(ledger);
  *out = ledger;
  return 0;
}

void tk_ledger_restart(struct tk_ledger *ledger) {
  memset(ledger->counts, 0, sizeof ledger->counts);
  memset(ledger->position_ps, 0,
         TK_LEDGERS * (size_t)ledger->setup.disk_count * sizeof *ledger->position_ps);
  ledger->totals = (struct tk_placement_totals){.bad_request_id = -1};
  for (size_t i = 0; i < TK_LEDGERS * (size_t)ledger->setup.device_count; i++)
    ledger->heads[i] = -1;
  ledger->nvm_head = -1;
  memset(ledger->is_written, 0,
         (TK_LEDGERS * (size_t)ledger->setup.device_count + 1) * sizeof *ledger->is_written);
}

static bool is_on_nvm(struct tk_ledger *ledger, uint32_t index, uint8_t role) {
  ledger->totals.missing_blocks += index == BLOCK_MAP_NONE;
  return index != BLOCK_MAP_NONE && ledger->setup.on_nvm[index] == role + 1;
}

static void count_part(struct tk_ledger_counts *counts, int place,
                       const struct issue_request *request, int64_t sectors, bool is_joined) {
  const int op = request->is_write;
  counts->joined[place][op] += is_joined;
  counts->apart[place][op] += !is_joined;
  counts->sectors[place][op] += sectors;
  counts->fua[place] += request->is_fua;
}

static bool *nvm_written(struct tk_ledger *ledger) {
  return &ledger->is_written[TK_LEDGERS * (size_t)ledger->setup.device_count];
}

/* Brings the base device's head over a part of a request, and leaves it where that ends. */
static void serve_base(struct tk_ledger *ledger, int which, const struct issue_request *request,
                       const struct part *part) {
  if (part->sectors == 0)
    return;
  const struct tk_ledger_setup *setup = &ledger->setup;
  const size_t device = (size_t)which * setup->device_count + request->device;
  int64_t *head = &ledger->heads[device];
  struct tk_wide *sums = ledger->position_ps + (size_t)which * setup->disk_count;
  count_part(&ledger->counts[which], BASE, request, part->sectors, *head == part->first);
  for (uint32_t i = 0; i < setup->disk_count; i++)
    add_wide(&sums[i],
             spindle_position_ps(&setup->disks[i], *head, part->first, request->is_write));
  *head = part->first + part->sectors;
  ledger->is_written[device] |= flush_is_due_after(request->is_write, request->is_fua);
}

/* Serves what of a request is where: each run of sectors on the base device, and on NVM one. */
static void serve_placed(struct tk_ledger *ledger, const struct issue_request *request) {
  const struct tk_placement_device *device = &ledger->devices[request->device];
  struct block_steps steps = block_steps_of(ledger->map, device, request);
  struct part base = {0, 0};
  struct part nvm = {0, 0};
  while (block_steps_next(&steps)) {
    const int64_t sectors = steps.end - steps.first;
    if (!is_on_nvm(ledger, steps.index, request->role)) {
      base.first = base.sectors > 0 ? base.first : steps.first;
      base.sectors += sectors;
      continue;
    }
    const int64_t first =
        (int64_t)ledger->ranks[steps.index] * BLOCK_SECTORS + steps.first % BLOCK_SECTORS;
    nvm.first = nvm.sectors > 0 ? nvm.first : first;
    nvm.sectors += sectors;
    serve_base(ledger, TK_LEDGER_PLACED, request, &base);
    base.sectors = 0;
  }
  serve_base(ledger, TK_LEDGER_PLACED, request, &base);
  if (nvm.sectors == 0)
    return;
  count_part(&ledger->counts[TK_LEDGER_PLACED], ON_NVM, request, nvm.sectors,
             ledger->nvm_head == nvm.first);
  ledger->nvm_head = nvm.first + nvm.sectors;
  *nvm_written(ledger) |= flush_is_due_after(request->is_write, request->is_fua);
}

static int transfer(void *context, const struct issue_request *request) {
  struct tk_ledger *ledger = context;
  const struct part whole = {request->sector, request->sectors};
  serve_base(ledger, TK_LEDGER_ALONE, request, &whole);
  serve_placed(ledger, request);
  ledger->totals.requests[request->role]++;
  return 0;
}

static int flush(void *context, const struct issue_request *request) {
  struct tk_ledger *ledger = context;
  const uint8_t placed = ledger->setup.placed[request->role];
  bool *alone = &ledger->is_written[request->device];
  ledger->counts[TK_LEDGER_ALONE].flushes[BASE][flush_device(alone)]++;
  int64_t (*flushes)[TK_FLUSHES] = ledger->counts[TK_LEDGER_PLACED].flushes;
  if (placed != TK_PLACED_ALL)
    flushes[BASE][flush_device(alone + ledger->setup.device_count)]++;
  if (placed != TK_PLACED_NONE)
    flushes[ON_NVM][flush_device(nvm_written(ledger))]++;
  return 0;
}

int tk_ledger_add(struct tk_ledger *ledger, const struct tk_placement_rows *rows) {
  const struct row_sink sink = {ledger, transfer, flush};
  return row_reader_add(&ledger->reader, rows, &sink);
}

int tk_ledger_finish(struct tk_ledger *ledger) {
  const struct row_sink sink = {ledger, transfer, flush};
  return row_reader_finish(&ledger->reader, &sink);
}

void tk_ledger_read(const struct tk_ledger *ledger, struct tk_placement_totals *totals,
                    struct tk_ledger_counts *counts, struct tk_wide *position_ps) {
  *totals = ledger->totals;
  if (counts == NULL)
    return;
  memcpy(counts, ledger->counts, sizeof ledger->counts);
  memcpy(position_ps, ledger->position_ps,
         TK_LEDGERS * (size_t)ledger->setup.disk_count * sizeof *position_ps);
}

void tk_ledger_free(struct tk_ledger *ledger) {
  if (ledger == NULL)
    return;
  block_map_free(ledger->map);
  row_reader_free(&ledger->reader);
  free(ledger->devices);
  free(ledger->ranks);
  free(ledger->heads);
  free(ledger->is_written);
  free(ledger->position_ps);
  free(ledger);
}
