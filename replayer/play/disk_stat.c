#include "play/disk_stat.h"

#include <stdlib.h>
#include <string.h>

#include "play/sysfs.h"

#define TEXT_BYTES 512U
#define COLUMNS 17U /* up to the time of flushes, since Linux 5.5 */

/* Columns of the attribute "stat" (Documentation/block/stat.rst); in each kind but flushes: done,
 * merged, sectors. */
static const unsigned first_columns[DISK_KINDS] = {
    [DISK_READS] = 0, [DISK_WRITES] = 4, [DISK_DISCARDS] = 11, [DISK_FLUSHES] = 15};

void disk_stat_read(dev_t device, struct disk_stat *stat) {
  /* A device that does not count would show zeroes, which must not pass for no requests. */
  char text[TEXT_BYTES];
  uint64_t columns[COLUMNS] = {0};
  *stat = (struct disk_stat){.is_known = false};
  if (sysfs_read(device, "queue/iostats", text, sizeof text) != 0 || strcmp(text, "1") != 0 ||
      sysfs_read(device, "stat", text, sizeof text) != 0)
    return;
  char *at = text;
  for (unsigned i = 0; i < COLUMNS; i++)
    columns[i] = strtoull(at, &at, 10); /* 0 for what an older kernel does not count */
  for (unsigned kind = 0; kind < DISK_KINDS; kind++) {
    const uint64_t *own = &columns[first_columns[kind]];
    stat->done[kind] = own[0];
    stat->merged[kind] = kind == DISK_FLUSHES ? 0 : own[1];
    stat->sectors[kind] = kind == DISK_FLUSHES ? 0 : own[2];
  }
  stat->is_known = true;
}

void disk_stat_subtract(struct disk_stat *stat, const struct disk_stat *before) {
  stat->is_known = stat->is_known && before->is_known;
  for (unsigned kind = 0; kind < DISK_KINDS; kind++) {
    stat->done[kind] -= before->done[kind];
    stat->merged[kind] -= before->merged[kind];
    stat->sectors[kind] -= before->sectors[kind];
  }
}
