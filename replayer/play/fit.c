#include "play/fit.h"

#include <errno.h>
#include <stddef.h>

const char *const fit_words[] = {"refuse", "wrap", "skip", "fold", "scale", "clip", NULL};

__extension__ typedef unsigned __int128 wide;

static uint64_t rounded_down(uint64_t value, uint64_t step) { return value - value % step; }

static uint64_t at_most(uint64_t value, uint64_t limit) { return value < limit ? value : limit; }

/* Position in a line of mirrored copies of the target; the far end of the request is reflected. */
static uint64_t folded(uint64_t sector, uint64_t length, uint64_t size) {
  uint64_t place = sector % (2 * size);
  if (place < size)
    return place;
  uint64_t end = 2 * size - place; /* where the reflected request ends */
  return end > length ? end - length : 0;
}

static uint64_t scaled(const struct fit_target *target, uint64_t sector) {
  uint64_t place = (uint64_t)((wide)sector * target->size_sectors / target->needed_sectors);
  return rounded_down(place, target->grain_sectors);
}

/* Brings a request back into a target that it does not fit. Returns false when it cannot. */
static bool bring_back(const struct fit_target *target, enum fit_policy policy,
                       struct block_record *record, struct fit_counts *counts) {
  uint64_t size = target->size_sectors;
  uint64_t length = record->length_sectors;
  if (policy == FIT_CLIP && record->sector < size) {
    record->length_sectors = (uint32_t)(size - record->sector);
    counts->clipped++;
    return true;
  }
  if (policy == FIT_CLIP || policy == FIT_SKIP || policy == FIT_REFUSE || length > size)
    return false;
  uint64_t place = policy == FIT_WRAP   ? record->sector % size
                   : policy == FIT_FOLD ? folded(record->sector, length, size)
                                        : scaled(target, record->sector);
  record->sector = at_most(place, size - length);
  counts->moved++;
  return true;
}

/* Widens a transfer to whole sectors of the target, as far as it goes. */
static void expand(const struct fit_target *target, struct block_record *record,
                   struct fit_counts *counts) {
  uint64_t step = target->expand_sectors;
  uint64_t first = rounded_down(record->sector, step);
  uint64_t end = rounded_down(record->sector + record->length_sectors + step - 1, step);
  end = at_most(end, target->size_sectors);
  if (first == record->sector && end == record->sector + record->length_sectors)
    return;
  record->sector = first;
  record->length_sectors = (uint32_t)(end - first);
  counts->expanded++;
}

static bool scales(const struct fit_target *target, enum fit_policy policy) {
  return policy == FIT_SCALE && target->needed_sectors > target->size_sectors;
}

uint64_t fit_plain_sectors(const struct fit_target *target, enum fit_policy policy) {
  return scales(target, policy) || target->expand_sectors > 1 ? 0 : target->size_sectors;
}

bool fit_record(const struct fit_target *target, enum fit_policy policy,
                struct block_record *record, struct fit_counts *counts) {
  if (record->operation == BLOCK_FLUSH)
    return true;
  bool is_beyond = record->sector + record->length_sectors > target->size_sectors;
  if (is_beyond || scales(target, policy))
    if (!bring_back(target, policy, record, counts))
      return false;
  bool moves_data = record->operation == BLOCK_READ || record->operation == BLOCK_WRITE;
  if (moves_data && target->expand_sectors > 1)
    expand(target, record, counts);
  return true;
}

int tk_fit_records(const struct fit_target *target, uint32_t policy, struct block_record *records,
                   uint64_t count, uint8_t *fits) {
  struct fit_counts counts = {0};
  if (policy >= FIT_POLICIES)
    return -EINVAL;
  for (uint64_t i = 0; i < count; i++)
    fits[i] = fit_record(target, (enum fit_policy)policy, &records[i], &counts);
  return 0;
}
