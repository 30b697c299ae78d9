/* Caches of the kernel and of products as rivals of a placement: the charged requests of a trace go
 * once through a cache on NVM in front of the base devices, at the placement model's costs.
 *
 * Requests come one after the other, as in placement.h, and each device has a head: a transfer that
 * begins where the last one on its device ended costs the sequential setup. Base pays a setup for
 * each run of sectors that it holds of a request, NVM one for its blocks; both pay the transfer.
 * Base and NVM parts are served in turn; a write that goes to both is over when the longer is. What
 * the cache does beside the request (promotions, writing back) takes no time of the request: it is
 * summed up as background time of each device. Whether the base devices are idle long enough for
 * it follows from the arrivals (rival_idle.h): what is not yet written holds its place in the
 * cache, so requests wait when more is owed than has space. */
#ifndef TRACEKIT_MODEL_CACHE_RIVALS_H
#define TRACEKIT_MODEL_CACHE_RIVALS_H

#include <stdint.h>

#include "common/export.h"
#include "model/flush_cost.h"
#include "model/placement.h"
#include "model/spindle.h"

enum tk_rival_kind {
  TK_RIVAL_WRITECACHE, /* dm-writecache: rival_writecache.c */
  TK_RIVAL_DM_CACHE,   /* dm-cache with the policy smq: rival_dm_cache.c */
  TK_RIVAL_BCACHE,     /* rival_bcache.c */
  TK_RIVAL_OPEN_CAS,   /* rival_open_cas.c */
  TK_RIVAL_LOG,        /* a separate log of synchronous writes, as ZFS SLOG: rival_log.c */
  TK_RIVAL_SPECIAL,    /* a place for metadata, as ZFS special vdev: rival_special.c */
  TK_RIVAL_MEMORY,     /* compressed memory for swap, as zram and zswap: rival_memory.c */
  TK_RIVAL_KINDS
};

/* How writes go. */
enum tk_rival_mode {
  TK_RIVAL_THROUGH,
  TK_RIVAL_BACK,
  TK_RIVAL_AROUND, /* Open CAS: to base, and to lines that are there */
  TK_RIVAL_ONLY,   /* Open CAS: back, and reads bring nothing in */
  TK_RIVAL_ALONE,  /* what is on NVM (or in memory) has no copy on base */
  TK_RIVAL_MODES
};

struct tk_rival_setup {
  const int64_t *keys;                       /* of the cache blocks, strictly ascending */
  const struct tk_placement_device *devices; /* in cache blocks */
  uint32_t block_count;
  uint32_t device_count;
  uint32_t as_issued;     /* 0: each request as queued; 1: as issued */
  uint32_t kind;          /* enum tk_rival_kind */
  uint32_t mode;          /* enum tk_rival_mode */
  uint32_t block_sectors; /* of a cache block; a multiple of 8 */
  uint32_t capacity;      /* cache blocks, at least 2 buckets */
  uint32_t bucket_blocks; /* bcache; else 1 */
  uint32_t high_percent;  /* of the capacity dirty: from above it on, blocks are written back */
  uint32_t low_percent;   /* down to this */
  int64_t cutoff_sectors; /* of a sequential stream: from there on it goes by; 0: none */
  int64_t small_sectors;  /* special: requests up to it are small; 0: none is */
  int64_t stale_ns;       /* Open CAS, ZFS log: a dirty block so old is cleaned; 0: none.
                             dm-writecache: its age when it is committed without a flush */
  struct tk_placement_cost base;
  struct tk_placement_cost nvm;    /* or memory */
  struct tk_spindle disk;          /* of the base device; half_turn_ps 0: none */
  int64_t flush_ps[2][TK_FLUSHES]; /* of base and NVM */
  uint32_t load; /* requests that each one stands for when idle time is sought; at least 1 */
  uint32_t commit_blocks; /* dm-writecache: metadata are committed after so many new blocks */
};

/* Blocks are cache blocks, those of a request that touches a part of one included. */
struct tk_rival_counts {
  int64_t response_ps;      /* sum over the requests, flushes included */
  int64_t busy_ps[2];       /* base and NVM, for requests */
  int64_t background_ps[2]; /* base and NVM, for the cache itself */
  int64_t delayed_ps;       /* of base's: requests wait for it, or it is left at the end */
  int64_t reads;            /* blocks read by requests */
  int64_t read_hits;        /* of these, from NVM */
  int64_t writes;           /* blocks written by requests */
  int64_t write_hits;       /* of these, in the cache before */
  int64_t bypassed;         /* blocks read or written that went by, as of a sequential stream */
  int64_t fills;            /* blocks that came in */
  int64_t evictions;        /* clean blocks that left for others */
  int64_t writebacks;       /* dirty blocks written to base */
  int64_t commits;          /* writes of 4 KiB of the cache's own metadata */
  int64_t dirty;            /* blocks at the end newer on NVM than on base */
};

struct tk_rival;

/* Makes a cache. Returns 0, -EINVAL when the setup contradicts itself, or -ENOMEM. */
TK_EXPORT int tk_rival_new(const struct tk_rival_setup *setup, struct tk_rival **out);

/* Adds the next requests; returns as tk_placement_add. After a failure only the totals may be read.
 * One thread at a time. */
TK_EXPORT int tk_rival_add(struct tk_rival *rival, const struct tk_placement_rows *rows);

/* Charges what is still queued: call once, after the last rows. Returns as tk_rival_add. */
TK_EXPORT int tk_rival_finish(struct tk_rival *rival);

/* Copies the totals, and the counts unless NULL. */
TK_EXPORT void tk_rival_read(const struct tk_rival *rival, struct tk_placement_totals *totals,
                             struct tk_rival_counts *counts);

/* Frees the cache; NULL is fine. */
TK_EXPORT void tk_rival_free(struct tk_rival *rival);

#endif
