/* What the rivals (cache_rivals.h) share: a cache of blocks, clean and dirty, each list with the
 * block that was used last at its end, and the two devices. */
#ifndef TRACEKIT_MODEL_RIVAL_H
#define TRACEKIT_MODEL_RIVAL_H

#include <stdbool.h>

#include "model/block_map.h"
#include "model/cache_rivals.h"
#include "model/page_ring.h"
#include "model/rival_idle.h"
#include "model/rival_streams.h"
#include "model/row_reader.h"

enum { RIVAL_BASE, RIVAL_NVM };
enum { RIVAL_CLEAN = PAGE_NOWHERE + 1, RIVAL_DIRTY }; /* in which list a block is */
/* Where a piece of a request goes. A read goes to one device, a write perhaps to both. */
enum { TO_BASE = 1, TO_NVM = 2 };

struct rival_place { /* of a block on its base device, known from its first use on */
  int64_t sector;    /* its first */
  uint32_t device;
};

/* What of a request is in one block. */
struct rival_piece {
  uint32_t block; /* rank, or BLOCK_MAP_NONE: served by base */
  int64_t first;  /* its sectors */
  int64_t end;
  bool is_write;
  bool is_sync;  /* forced, after a flush, or of the journal */
  uint8_t role;  /* TK_ROLE_* */
  bool is_meta;  /* file system metadata */
  bool is_small; /* of a request of at most small_sectors */
  bool is_going; /* of a stream beyond the cutoff */
};

/* When a cache writes its metadata, 4 KiB of NVM, if they have changed. */
enum rival_commit { COMMIT_NEVER, COMMIT_FORCED, COMMIT_DIRTIED };

struct rival_policy {
  uint32_t flushed; /* TO_BASE and TO_NVM: what a flush waits for */
  /* COMMIT_FORCED: at flushes and forced writes; COMMIT_DIRTIED: with a block that gets dirty. */
  enum rival_commit commit;
  int (*make)(struct tk_rival *rival);    /* its own state, if not NULL. Returns 0 or -ENOMEM. */
  void (*begin)(struct tk_rival *rival);  /* works in the background before a request, or NULL */
  void (*settle)(struct tk_rival *rival); /* and behind it */
  /* Takes a piece; returns TO_BASE, TO_NVM or both. */
  uint32_t (*take)(struct tk_rival *rival, const struct rival_piece *piece);
  void (*free)(struct tk_rival *rival); /* NULL: nothing */
};
struct tk_rival {
  struct tk_rival_setup setup;
  const struct rival_policy *policy;
  void *state; /* of the policy */
  struct tk_placement_device *devices;
  struct block_map *map;
  struct row_reader reader;
  struct page_state *blocks; /* by rank */
  struct rival_place *places;
  uint32_t *slots; /* where on NVM each cached block is, in blocks */
  uint32_t *free_slots;
  uint32_t free_count;
  struct page_ring clean;
  struct page_ring dirty;
  bool *is_written; /* by base device, then NVM: something to flush is on it */
  int64_t *heads;   /* one past the last sector, by base device, then NVM; -1: unknown */
  struct stream *streams;
  struct rival_idle *idle; /* by base device */
  uint32_t device;         /* of the last request */
  int64_t now_ns;
  int64_t written_ns;   /* dm-writecache: first write since a commit; INT64_MAX: none */
  uint32_t uncommitted; /* the same: blocks that came since then */
  bool is_changed;      /* a block came, left or was cleaned since the last commit */
  bool is_dirtied;      /* a block that was not dirty is so since the last commit */
  bool is_short;        /* of the policy: there was no slot for a block of this request */
  struct tk_rival_counts counts;
  struct tk_placement_totals totals;
};

extern const struct rival_policy rival_writecache, rival_dm_cache, rival_bcache, rival_open_cas,
    rival_log, rival_special, rival_memory;

static inline bool rival_is_cached(const struct tk_rival *rival, uint32_t block) {
  return rival->blocks[block].place != PAGE_NOWHERE;
}

static inline bool rival_is_dirty(const struct tk_rival *rival, uint32_t block) {
  return rival->blocks[block].place == RIVAL_DIRTY;
}

/* Return what a transfer, which moves the head, or a flush takes on base (this device) or NVM. */
int64_t rival_transfer_ps(struct tk_rival *rival, int where, uint32_t device,
                          const struct rival_piece *piece, bool is_fua);
int64_t rival_flush_ps(struct tk_rival *rival, int where, uint32_t device);
/* Charges background transfers of a whole block on base and on its slot, or a flush of each base
 * device with something to flush. */
void rival_background(struct tk_rival *rival, int where, uint32_t block, bool is_write);
void rival_background_flush(struct tk_rival *rival);

/* Brings a block in, used now; there must be a free slot. */
void rival_bring(struct tk_rival *rival, uint32_t block, bool is_dirty);

/* Uses a cached block, and makes it dirty if it `is_dirty`, never clean. */
void rival_use(struct tk_rival *rival, uint32_t block, bool is_dirty);

/* Takes a cached block out; or writes a dirty one to base in the background: it stays, clean. The
 * last returns whether a slot is free, for which the oldest clean block may leave. */
void rival_drop(struct tk_rival *rival, uint32_t block);
void rival_clean(struct tk_rival *rival, uint32_t block);
bool rival_make_room(struct tk_rival *rival);

/* Writes the oldest dirty blocks out, with the dirty ones that follow them on their device, while
 * more of the capacity than `percent` is dirty; they leave the cache. */
void rival_write_out(struct tk_rival *rival, uint32_t percent);

/* Writes 4 KiB of metadata to NVM, durably; returns what that takes, and counts it. */
int64_t rival_commit_ps(struct tk_rival *rival);

#endif
