#include "play/plan_scan.h"

#include <errno.h>
#include <stdlib.h>

#include "play/block_targets.h"
#include "play/diag.h"

struct scan {
  const struct block_session *session;
  struct scan_target *targets;
  struct fit_target places[BLOCK_PLAN_TARGETS_MAX];
};

static bool is_range(uint8_t operation) {
  return operation == BLOCK_DISCARD || operation == BLOCK_WRITE_ZEROES;
}

/* What a request that runs does to the space of its target. */
static void move_space(const struct target *target, struct scan_target *scanned,
                       const struct block_record *record) {
  uint64_t offset = record->sector * SECTOR_BYTES;
  uint64_t length = (uint64_t)record->length_sectors * SECTOR_BYTES;
  if (scanned->map == NULL)
    return;
  if (record->operation == BLOCK_WRITE || record->operation == BLOCK_WRITE_ZEROES)
    block_map_take(scanned->map, offset, length);
  else if (record->operation == BLOCK_DISCARD && target->can_discard)
    block_map_release(scanned->map, offset, length);
}

/* Counts the writes that a zoned device rejects, when it gets them in the order of the plan. */
static void follow_zones(struct scan_target *scanned, const struct block_record *record) {
  uint64_t sector = record->sector;
  if (scanned->zones == NULL)
    return;
  enum zone_verdict verdict =
      zone_map_follow(scanned->zones, record->operation, &sector, record->length_sectors);
  scanned->counts[SCAN_ZONE_POINTER] += verdict == ZONE_REJECTS_PLACE;
  scanned->counts[SCAN_ZONE_CROSSING] += verdict == ZONE_REJECTS_LENGTH;
  scanned->counts[SCAN_ZONE_MORE] += verdict == ZONE_REJECTS_MORE;
}

static void examine(struct scan *scan, const struct block_record *record) {
  const struct target *target = &scan->session->targets[record->target];
  struct scan_target *scanned = &scan->targets[record->target];
  struct fit_counts ignored = {0};
  struct block_record placed = *record;
  uint64_t end = record->sector + record->length_sectors;
  if (record->operation == BLOCK_FLUSH)
    return;
  bool writes = record->operation != BLOCK_READ;
  scanned->counts[SCAN_WRITES] += writes;
  scanned->counts[SCAN_DISCARDS] += record->operation == BLOCK_DISCARD;
  scanned->counts[SCAN_APPENDS] += record->operation == BLOCK_ZONE_APPEND;
  scanned->counts[SCAN_ZONE_OPERATIONS] += record->operation >= BLOCK_ZONE_APPEND;
  scanned->counts[SCAN_ZEROES] += record->operation == BLOCK_WRITE_ZEROES;
  scanned->counts[SCAN_BEYOND] += end > scan->places[record->target].size_sectors;
  bool is_odd = (record->sector | record->length_sectors) * SECTOR_BYTES % target->align_bytes != 0;
  scanned->counts[is_range(record->operation) ? SCAN_UNALIGNED_RANGE : SCAN_UNALIGNED] += is_odd;
  if ((writes && !target->may_write) ||
      !fit_record(&scan->places[record->target], scan->session->options->out_of_range, &placed,
                  &ignored))
    return;
  bool extends = placed.operation == BLOCK_WRITE ||
                 (placed.operation == BLOCK_WRITE_ZEROES && !target->can_zero);
  end = (placed.sector + placed.length_sectors) * SECTOR_BYTES;
  scanned->counts[SCAN_TOO_FAR] += extends && end > scanned->limit_bytes;
  move_space(target, scanned, &placed);
  follow_zones(scanned, &placed);
}

int plan_scan(const struct block_session *session, struct scan_target *targets) {
  struct scan scan = {.session = session, .targets = targets};
  const struct feed_window *window = &session->window;
  struct block_record *records = malloc(BLOCK_PLAN_STRIDE * sizeof *records);
  if (records == NULL) {
    diag("no memory to read %s", session->plan.path);
    return -ENOMEM;
  }
  for (uint32_t i = 0; i < session->target_count; i++)
    scan.places[i] = block_targets_fit(session, i);
  uint64_t last_ns = 0;
  int rc = 0;
  uint64_t block = window->first / BLOCK_PLAN_STRIDE;
  for (; block * BLOCK_PLAN_STRIDE < window->end && rc == 0; block++) {
    uint32_t count = 0;
    uint64_t place = block * BLOCK_PLAN_STRIDE;
    rc = block_plan_read_block(&session->plan, block, records, &count, &last_ns);
    for (uint32_t i = 0; i < count && rc == 0; i++)
      if (place + i >= window->first && place + i < window->end)
        examine(&scan, &records[i]);
  }
  free(records);
  return rc;
}
