/* What the kernel counted of a block device: requests as the device got them. */
#ifndef TRACEKIT_PLAY_DISK_STAT_H
#define TRACEKIT_PLAY_DISK_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum disk_stat_kind { DISK_READS, DISK_WRITES, DISK_DISCARDS, DISK_FLUSHES, DISK_KINDS };

struct disk_stat {
  bool is_known; /* the kernel counts (queue/iostats) */
  /* Completed. A request with merged ones in it is one; one that only flushes is a write, and the
   * command to the device that serves it, and others, a flush. */
  uint64_t done[DISK_KINDS];
  uint64_t merged[DISK_KINDS];  /* requests that were merged into a neighbour; none of flushes */
  uint64_t sectors[DISK_KINDS]; /* of 512 bytes; none of flushes */
};

/* Reads the counters of a device or partition; not known where the kernel does not report it. */
void disk_stat_read(dev_t device, struct disk_stat *stat);

/* Makes of `stat` what was counted since `before`. */
void disk_stat_subtract(struct disk_stat *stat, const struct disk_stat *before);

#endif
