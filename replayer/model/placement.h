/* Elapsed time against NVM capacity for several orders of placing blocks, in one pass, for devices
 * on which no request costs less for continuing the one before.
 *
 * A request is served by the base device and by NVM in turn: the base device's latency counts for
 * each run of sectors that it holds, NVM's once, for its blocks are neighbours there, and both take
 * the transfer of the sectors they hold. As capacity grows, blocks move to NVM one after the other,
 * so each request adds a step function of capacity to the total, with its steps where its blocks
 * move. The kernel sums the steps at given capacity points: exact at every point, in integer
 * picoseconds, for any number of points. Where a request's time depends on the one before,
 * event_simulation.h has the same for given placements. */
#ifndef TRACEKIT_MODEL_PLACEMENT_H
#define TRACEKIT_MODEL_PLACEMENT_H

#include <stdint.h>

#include "common/export.h"

enum { TK_ROLE_FS, TK_ROLE_JOURNAL, TK_ROLE_SWAP, TK_ROLES_PLACED, TK_ROLES = 5 };

/* The orders in which blocks move: within their role hottest first, within their role from its
 * start, and over all roles hottest first. */
enum { TK_ORDER_HOTTEST, TK_ORDER_START, TK_ORDER_OPTIMAL, TK_ORDERS };

/* Curves in a result: hottest-first of each placed role, from-the-start of each, then optimal. */
enum { TK_CURVES = 2 * TK_ROLES_PLACED + 1 };

enum { TK_ACTION_READ, TK_ACTION_WRITE, TK_ACTION_FLUSH, TK_ACTION_UNCHARGED };

/* What a device costs, in picoseconds; index 0 reads, 1 writes. */
struct tk_placement_cost {
  int64_t latency_ps[2];    /* before the transfer */
  int64_t sequential_ps[2]; /* before the transfer, where the device's last one ended */
  int64_t sector_ps[2];     /* transfer of 512 bytes */
  int64_t fua_ps;           /* added to a forced unit access */
};

/* Where a device's blocks are in the space of keys: key = block - first_block + first_key. */
struct tk_placement_device {
  int64_t first_block; /* lowest 4 KiB block that was touched */
  int64_t blocks;      /* from it to the highest touched */
  int64_t first_key;
};

/* One block: the capacity point (an index) from which on it is on NVM, for each order. */
struct tk_placement_block {
  uint16_t point[TK_ORDERS]; /* the number of points means never */
  uint16_t role;             /* its role */
};

struct tk_placement_setup {
  const int64_t *keys;                     /* of the blocks, strictly ascending */
  const struct tk_placement_block *blocks; /* in the order of keys; must outlive the kernel */
  const struct tk_placement_device *devices;
  uint32_t block_count;
  uint32_t device_count;
  uint32_t point_count; /* capacity points, at most 65534 */
  uint32_t as_issued;   /* 0: each request as queued; 1: as issued */
  struct tk_placement_cost base;
  struct tk_placement_cost nvm;
};

/* Columns of requests in queue order. */
struct tk_placement_rows {
  const int64_t *request_id;
  const int64_t *queue_ns;    /* -1: unknown */
  const int64_t *issue_ns;    /* -1: not issued itself */
  const int64_t *merged_into; /* request id, -1: not merged */
  const int64_t *sector;      /* of 512 bytes */
  const int64_t *length_bytes;
  const int32_t *device; /* index in `devices` */
  const uint8_t *action; /* TK_ACTION_* */
  const uint8_t *role;   /* TK_ROLE_* or another index below TK_ROLES */
  const uint8_t *is_fua;
  const uint8_t *is_preflush;
  const uint8_t *is_meta; /* file system metadata; NULL: none is */
  int64_t count;
};

struct tk_placement_totals {
  int64_t base_ps[TK_ROLES];  /* all on the base device, flushes left out */
  int64_t requests[TK_ROLES]; /* reads and writes charged, at the chosen level */
  int64_t flushes[TK_ROLES];  /* flush requests and preflushes, as queued */
  int64_t uncharged;          /* discards and others without data transfer */
  int64_t not_issued;         /* as issued: reads and writes that were never issued, left out */
  int64_t orphan_merges;  /* as issued: merged requests whose merge target was not found, charged
                             on their own */
  int64_t impossible;     /* reads and writes with a place or length that no disk has, left
                             out */
  int64_t missing_blocks; /* touches of blocks that are not among the keys, kept on base */
  int64_t bad_request_id; /* the request that -EINVAL or -EOVERFLOW is about, else -1 */
};

struct tk_placement;

/* Makes a kernel. Returns 0, -EINVAL when the setup contradicts itself or what continues costs
 * less, or -ENOMEM. */
TK_EXPORT int tk_placement_new(const struct tk_placement_setup *setup,
                               struct tk_placement **kernel);

/* Adds the next requests. Returns 0; -EINVAL for a row with a code out of range, -EOVERFLOW when
 * times no longer fit 64 bits, -EEXIST for a request id seen twice, or -ENOMEM. After a failure
 * only the totals may be read. One thread at a time. */
TK_EXPORT int tk_placement_add(struct tk_placement *kernel, const struct tk_placement_rows *rows);

/* Charges what is still queued: call once, after the last rows. Returns as tk_placement_add. */
TK_EXPORT int tk_placement_finish(struct tk_placement *kernel);

/* Copies the totals, and unless `steps_ps` is NULL the change of elapsed time at each capacity
 * point of each curve: TK_CURVES rows of point_count values. */
TK_EXPORT void tk_placement_read(const struct tk_placement *kernel,
                                 struct tk_placement_totals *totals, int64_t *steps_ps);

/* Frees the kernel; NULL is fine. */
TK_EXPORT void tk_placement_free(struct tk_placement *kernel);

#endif
