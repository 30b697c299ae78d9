/* What requests do with pages, by stretches of 64 pages: swap is known by it (tracekit/classify/
 * paging.py). Memory grows with the stretches that were touched, and is bounded. */
#ifndef TRACEKIT_MODEL_PAGING_H
#define TRACEKIT_MODEL_PAGING_H

#include <stdint.h>

#include "common/export.h"

/* Pages of 4 KiB of one device that are counted together: 256 KiB. */
#define TK_PAGING_CHUNK_PAGES 64
/* A chunk's key is its number on the device, and the device from this bit on. */
#define TK_PAGING_DEVICE_SHIFT 38
/* Chunks that are counted; at most 300 MiB. Requests of others that come later do not count. */
#define TK_PAGING_MOST_CHUNKS (1 << 22)

/* Pages that were read before and after they were written, and that were written by reclaim and by
 * others. */
enum { TK_PAGING_FRESH, TK_PAGING_KNOWN, TK_PAGING_RECLAIMED, TK_PAGING_OTHER, TK_PAGING_KINDS };

/* Reads and writes in queue order; arrays of equal length. */
struct tk_paging_touches {
  const int64_t *device; /* a number below 2^24 */
  const int64_t *sector; /* the first, of 512 bytes */
  const int64_t *end;    /* one past the last */
  const uint8_t *is_write;
  const uint8_t *is_reclaim; /* only of writes: reclaim alone makes such */
};

struct tk_paging_chunk {
  uint64_t key;
  uint64_t written;                 /* bit i: page i was written */
  uint32_t counts[TK_PAGING_KINDS]; /* pages, UINT32_MAX for more */
};

struct tk_paging;

/* Makes a handle that has counted nothing, for one thread at a time. Returns 0 or -ENOMEM. */
TK_EXPORT int tk_paging_new(struct tk_paging **out);

/* Counts `count` further requests; one with a place or length that no disk has counts for nothing.
 * Returns 0 or -ENOMEM. */
TK_EXPORT int tk_paging_add(struct tk_paging *paging, const struct tk_paging_touches *touches,
                            uint64_t count);

/* Returns how many chunks were touched. */
TK_EXPORT uint64_t tk_paging_count(const struct tk_paging *paging);

/* Writes all of them by key; nothing may be added afterwards. */
TK_EXPORT void tk_paging_read(struct tk_paging *paging, struct tk_paging_chunk *out);

/* Frees a handle; NULL is fine. */
TK_EXPORT void tk_paging_free(struct tk_paging *paging);

#endif
