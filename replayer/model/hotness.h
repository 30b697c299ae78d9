/* Counts what happens to each 4 KiB block of a trace: reads, writes, first and last access, which
 * of its 512-byte sectors, how many different blocks each time window touches, and how long it is
 * between two accesses.
 *
 * Memory never exceeds the budget. A key names a block of any device in one 64-bit space; when the
 * blocks of the chosen range of keys do not fit, adding stops with -ENOSPC, the caller asks where
 * to cut, and goes through the trace once a range. Results of separate ranges add up exactly.
 * A handle belongs to one thread at a time; different handles are independent. */
#ifndef TRACEKIT_MODEL_HOTNESS_H
#define TRACEKIT_MODEL_HOTNESS_H

#include <stddef.h>
#include <stdint.h>

#include "common/export.h"
#include "model/volume.h"

#define HOTNESS_MIN_BUDGET_BYTES 65536
#define HOTNESS_MAX_DEVICES VOLUMES_MAX
/* A request without any time: it takes that of the one before, and no interval ends at it. */
#define HOTNESS_NO_TIME VOLUME_NO_TIME

enum hotness_operation { HOTNESS_READ = 0, HOTNESS_WRITE = 1, HOTNESS_IGNORED = 2 };

struct hotness; /* opaque */

/* `count` requests in queue order, one array a column. */
struct hotness_batch {
  uint64_t count;
  const int64_t *sector;       /* 512-byte sectors from the device's start */
  const int64_t *length_bytes; /* bytes */
  const int64_t *time_ns;      /* from the trace's start, or HOTNESS_NO_TIME */
  const uint16_t *device;      /* index of the device in the order of the output */
  const uint8_t *operation;    /* enum hotness_operation */
  const uint8_t *role;         /* below the handle's role count */
};

struct hotness_totals {
  uint64_t blocks;       /* different blocks in the range */
  uint64_t touches;      /* block accesses in the range: the sum of reads and writes */
  uint64_t mixed_blocks; /* of the blocks, those touched by requests of several roles */
  uint64_t requests;     /* reads and writes that counted, in any range */
  uint64_t impossible;   /* reads and writes left out: a place or length that no disk has */
  uint64_t memory_bytes; /* taken by the tables now */
  int64_t clock_ns;      /* latest time seen */
};

/* One block as it leaves. */
struct hotness_record {
  int64_t block;    /* number of the 4 KiB block on its device */
  int64_t first_ns; /* from the trace's start */
  int64_t last_ns;
  uint32_t reads; /* requests */
  uint32_t writes;
  uint16_t device;
  uint8_t role;    /* of the first request that touched it */
  uint8_t sectors; /* different 512-byte sectors that were touched, 1 to 8 */
  uint32_t unused; /* 0 */
};

/* Makes a handle for `window_count` windows of `window_ns` each, from time 0; later times fall in
 * the last window. The window tables, 16 bytes a window and role, and what is measured of each
 * volume, 47 KiB a device, are not part of the budget.
 * Returns 0, -EINVAL for a zero or a budget below HOTNESS_MIN_BUDGET_BYTES, or -ENOMEM. */
TK_EXPORT int tk_hotness_new(uint64_t budget_bytes, int64_t window_ns, uint32_t window_count,
                             uint32_t role_count, struct hotness **out);

/* Frees a handle; NULL is fine. */
TK_EXPORT void tk_hotness_free(struct hotness *hotness);

/* Forgets everything and counts blocks with first_key <= key <= last_key from now on. */
TK_EXPORT void tk_hotness_range(struct hotness *hotness, uint64_t first_key, uint64_t last_key);

/* Returns the key of a device's block, rounded down to the 64 blocks that are never parted. */
TK_EXPORT uint64_t tk_hotness_key(uint16_t device, uint64_t block);

/* Counts a batch; *done says how many of its requests were counted. Returns 0, -ENOSPC when the
 * budget is used up (the range must be started again, cut), -EOVERFLOW when a block has 2^32
 * accesses, -EINVAL for an unknown role, -ENOMEM. */
TK_EXPORT int tk_hotness_add(struct hotness *hotness, const struct hotness_batch *batch,
                             uint64_t *done);

/* Writes the counts for the range so far. */
TK_EXPORT void tk_hotness_totals(const struct hotness *hotness, struct hotness_totals *out);

/* Writes, for window w and role r, different blocks to distinct[w * role_count + r] and blocks
 * never touched before to fresh[...]. A block counts for the role of its first request, and a
 * request that is out of time order for the latest window reached. */
TK_EXPORT void tk_hotness_windows(const struct hotness *hotness, uint64_t *distinct,
                                  uint64_t *fresh);

/* Writes what a device's requests came to, and VOLUME_INTERVALS histograms of VOLUME_BUCKETS + 1
 * cells, of the range's blocks; requests and their arrivals count only in a range from key 0 on.
 * Returns 1, or 0 for a device without a read or write: nothing is written. */
TK_EXPORT int tk_hotness_volume(const struct hotness *hotness, uint16_t device,
                                struct volume_counts *counts, uint64_t *intervals);

/* Writes `count` - 1 ascending keys that part the blocks found so far into ranges of equal size,
 * each the first key of the next range, and returns how many it wrote (fewer when keys are few).
 * After this or the first tk_hotness_export only exporting and tk_hotness_range are allowed. */
TK_EXPORT uint64_t tk_hotness_cuts(struct hotness *hotness, uint64_t count, uint64_t *keys);

/* Writes up to `capacity` (at least 64) further records, by device and block; returns how many,
 * 0 at the end. */
TK_EXPORT uint64_t tk_hotness_export(struct hotness *hotness, struct hotness_record *out,
                                     uint64_t capacity);

#endif
