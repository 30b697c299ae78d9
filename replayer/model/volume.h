/* Measures one volume (a device) as studies of cloud block storage do: how long it is from one
 * access to a block to the next, by what the two are, and how many requests are random.
 *
 * Counts and histograms only, so that those of parts of the blocks or of several volumes add up. A
 * bucket of a histogram is that of log_bucket (analyzers/lib) with VOLUME_OCTAVE_BITS. */
#ifndef TRACEKIT_MODEL_VOLUME_H
#define TRACEKIT_MODEL_VOLUME_H

#include <stdint.h>

#include "model/leaves.h"

#define VOLUME_OCTAVE_BITS 4
#define VOLUME_BUCKETS ((64 - VOLUME_OCTAVE_BITS + 1) << VOLUME_OCTAVE_BITS)
#define VOLUME_RECENT 32         /* a request is near when it is near one of so many before it */
#define VOLUME_NEAR_SECTORS 256  /* 128 KiB from begin to begin */
#define VOLUME_NO_TIME INT64_MIN /* of a request whose time is not known */
#define VOLUMES_MAX 65536

/* What lies between two moments. The first four are between two accesses to a block that follow
 * each other, by the later and the earlier; an update is from a write to the next, reads between
 * them or not; an arrival is from a request of the volume to its next. */
enum volume_interval {
  VOLUME_RAR = 0,
  VOLUME_WAR = 1,
  VOLUME_RAW = 2,
  VOLUME_WAW = 3,
  VOLUME_UPDATE = 4,
  VOLUME_ARRIVAL = 5,
  VOLUME_INTERVALS = 6
};

struct volume_counts {
  uint64_t reads; /* requests */
  uint64_t writes;
  uint64_t random_reads; /* of them, those further than VOLUME_NEAR_SECTORS from each recent one */
  uint64_t random_writes;
};

struct volume {
  struct volume_counts counts;
  int64_t recent[VOLUME_RECENT]; /* first sectors of the latest requests, in a ring */
  int64_t arrival_ns;            /* of the latest request, or VOLUME_NO_TIME */
  /* By the number of the bucket; the last cell has those of which a time is not known. */
  uint64_t intervals[VOLUME_INTERVALS][VOLUME_BUCKETS + 1];
};

struct volumes {
  struct volume *of_device[VOLUMES_MAX]; /* NULL before its first request */
};

/* Returns a device's volume, which is made if it has none, or NULL: no memory. */
struct volume *volumes_get(struct volumes *volumes, uint16_t device);

/* Counts from 0 again; no volume is gone. */
void volumes_clear(struct volumes *volumes);

/* Writes a device's counts and all its cells of intervals. Returns 1, or 0 where it has no volume.
 */
int volumes_read(const struct volumes *volumes, uint16_t device, struct volume_counts *counts,
                 uint64_t *intervals);

/* Frees what the volumes hold. */
void volumes_free(struct volumes *volumes);

/* Counts a read or write of the volume; in the order of the queue. */
void volume_request(struct volume *volume, int64_t sector, int is_write, int64_t time_ns);

/* Counts an access to a block, before the row's own counts and times change. */
void volume_access(struct volume *volume, struct leaf_row *row, int is_write, int64_t time_ns);

#endif
