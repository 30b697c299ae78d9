#include "model/ledger.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/block_map.h"
#include "model/block_steps.h"
#include "model/row_reader.h"

enum { BASE, ON_NVM };

/* Where the previous request of a traced device ended. */
struct joint {
  int64_t sector;           /* one past its last; -1 before the first request */
  int64_t head[TK_LEDGERS]; /* one past the last sector that the base device served; -1: none */
  uint8_t role;
  bool is_nvm; /* in the placement */
};

struct tk_ledger {
  struct tk_ledger_setup setup;
  struct block_map *map;
  struct tk_placement_device *devices;
  struct joint *joints; /* one a device */
  struct row_reader reader;
  struct tk_ledger_counts counts[TK_LEDGERS];
  struct tk_wide *position_ps; /* TK_LEDGERS rows of disk_count */
  struct tk_placement_totals totals;
};

/* What of one request is where. */
struct cut {
  int64_t nvm_sectors;
  int64_t base_first; /* its first sector on the base device, -1: none */
  int64_t base_end;
  bool is_first_nvm; /* its first block, and its last */
  bool is_last_nvm;
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

static int allocate(struct tk_ledger *ledger) {
  const struct tk_ledger_setup *setup = &ledger->setup;
  ledger->devices = malloc((setup->device_count + 1ul) * sizeof *ledger->devices);
  ledger->joints = malloc((setup->device_count + 1ul) * sizeof *ledger->joints);
  ledger->position_ps =
      calloc(TK_LEDGERS * (size_t)setup->disk_count + 1, sizeof *ledger->position_ps);
  if (ledger->devices == NULL || ledger->joints == NULL || ledger->position_ps == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < setup->device_count; i++)
    ledger->devices[i] = setup->devices[i];
  const int error = block_map_new(setup->keys, setup->block_count, &ledger->map);
  if (error)
    return error;
  return row_reader_init(&ledger->reader, setup->device_count, setup->as_issued, &ledger->totals);
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
  for (uint32_t i = 0; i < ledger->setup.device_count; i++)
    ledger->joints[i] = (struct joint){.sector = -1, .head = {-1, -1}};
}

static bool is_on_nvm(struct tk_ledger *ledger, uint32_t index, uint8_t role) {
  ledger->totals.missing_blocks += index == BLOCK_MAP_NONE;
  return index != BLOCK_MAP_NONE && ledger->setup.on_nvm[index] == role + 1;
}

static struct cut find_cut(struct tk_ledger *ledger, const struct issue_request *request) {
  const struct tk_placement_device *device = &ledger->devices[request->device];
  struct cut cut = {.base_first = -1, .base_end = -1};
  struct block_steps steps = block_steps_of(ledger->map, device, request);
  while (block_steps_next(&steps)) {
    cut.is_last_nvm = is_on_nvm(ledger, steps.index, request->role);
    if (steps.first == request->sector)
      cut.is_first_nvm = cut.is_last_nvm;
    if (cut.is_last_nvm) {
      cut.nvm_sectors += steps.end - steps.first;
    } else {
      cut.base_first = cut.base_first < 0 ? steps.first : cut.base_first;
      cut.base_end = steps.end;
    }
  }
  return cut;
}

static void count_part(struct tk_ledger_counts *counts, int place,
                       const struct issue_request *request, int64_t sectors, bool is_joined) {
  const int op = request->is_write;
  counts->joined[place][op] += is_joined;
  counts->apart[place][op] += !is_joined;
  counts->sectors[place][op] += sectors;
  counts->fua[place] += request->is_fua;
}

/* Brings the head of each disk over the part of a request, and leaves it where that ends. */
static void seek(struct tk_ledger *ledger, int which, const struct issue_request *request,
                 int64_t first, int64_t end) {
  int64_t *head = &ledger->joints[request->device].head[which];
  struct tk_wide *sums = ledger->position_ps + (size_t)which * ledger->setup.disk_count;
  for (uint32_t i = 0; i < ledger->setup.disk_count; i++)
    add_wide(&sums[i],
             spindle_position_ps(&ledger->setup.disks[i], *head, first, request->is_write));
  *head = end;
}

static int transfer(void *context, const struct issue_request *request) {
  struct tk_ledger *ledger = context;
  struct joint *joint = &ledger->joints[request->device];
  const bool continues = joint->sector == request->sector && joint->role == request->role;
  const int64_t end = request->sector + request->sectors;
  count_part(&ledger->counts[TK_LEDGER_ALONE], BASE, request, request->sectors, continues);
  seek(ledger, TK_LEDGER_ALONE, request, request->sector, end);

  const struct cut cut = find_cut(ledger, request);
  struct tk_ledger_counts *placed = &ledger->counts[TK_LEDGER_PLACED];
  if (cut.nvm_sectors < request->sectors) {
    count_part(placed, BASE, request, request->sectors - cut.nvm_sectors,
               continues && !joint->is_nvm && !cut.is_first_nvm);
    seek(ledger, TK_LEDGER_PLACED, request, cut.base_first, cut.base_end);
  }
  if (cut.nvm_sectors > 0)
    count_part(placed, ON_NVM, request, cut.nvm_sectors,
               continues && joint->is_nvm && cut.is_first_nvm);
  joint->sector = end;
  joint->role = request->role;
  joint->is_nvm = cut.is_last_nvm;
  ledger->totals.requests[request->role]++;
  return 0;
}

static int flush(void *context, const struct issue_request *request) {
  struct tk_ledger *ledger = context;
  ledger->counts[TK_LEDGER_ALONE].flushes[TK_PLACED_NONE]++;
  ledger->counts[TK_LEDGER_PLACED].flushes[ledger->setup.placed[request->role]]++;
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
  free(ledger->joints);
  free(ledger->position_ps);
  free(ledger);
}
