#include "workload/tally.h"

#include <errno.h>
#include <stdbool.h>

#define SECTOR_BYTES 512U
#define MOVES_DATA_BELOW 2 /* reads and writes */
#define ZONE_APPEND 5

int tk_plan_tally(const struct workload_record *records, uint64_t count,
                  struct tally_target *targets, uint32_t target_count, uint64_t *most_sectors) {
  uint64_t most = *most_sectors;
  int status = 0;
  for (uint64_t at = 0; at < count; at++) {
    const struct workload_record *record = &records[at];
    if (record->target >= target_count || record->operation >= TALLY_OPERATIONS) {
      status = -EINVAL;
      break;
    }
    struct tally_target *target = &targets[record->target];
    uint64_t sectors = record->length_sectors;
    target->counts[record->operation]++;
    target->bytes[record->operation] += sectors * SECTOR_BYTES;
    if (record->operation != WORKLOAD_FLUSH)
      target->address_bits |= record->sector | sectors;
    bool moves_data = record->operation < MOVES_DATA_BELOW || record->operation == ZONE_APPEND;
    if (moves_data && sectors > most)
      most = sectors;
  }
  *most_sectors = most;
  return status;
}
