/* One cache level, reference by reference, with any policy and way of writing. */
#ifndef TRACEKIT_MODEL_CACHE_H
#define TRACEKIT_MODEL_CACHE_H

#include <stdint.h>

#include "common/export.h"
#include "model/page_runs.h"

enum cache_writes {
  WRITES_THROUGH, /* to the cache and to what is behind it */
  WRITES_BACK,    /* to the cache; behind it when the page leaves */
  WRITES_AROUND   /* behind the cache; a copy in the cache leaves it */
};

struct cache_setup {
  uint32_t page_count;
  uint32_t capacity;        /* pages; 0: nothing is kept */
  uint32_t policy;          /* enum cache_policy_name in policy.h */
  uint32_t writes;          /* enum cache_writes */
  uint32_t writes_allocate; /* 0: a missed write goes by, and a write makes no page younger */
  uint32_t unused;
};

/* References are single pages. */
struct cache_counts {
  uint64_t references[2 * PAGE_ROLES]; /* by role * 2 + is_write */
  uint64_t hits[2 * PAGE_ROLES];       /* the same */
  uint64_t fills;                      /* pages that came in */
  uint64_t evictions;                  /* pages that left for others */
  uint64_t backend_reads;              /* pages read behind the cache */
  uint64_t backend_writes;             /* pages written behind it */
  uint64_t dirty;                      /* pages in the cache that are newer than behind it */
};

struct cache;

/* Makes a cache. Returns 0, -EINVAL for a policy or way of writing that there is not, or
 * -ENOMEM. */
TK_EXPORT int tk_cache_new(const struct cache_setup *setup, struct cache **out);

/* Goes through runs. `next_uses` has an entry for each page of the runs; NULL is fine for all
 * policies but the optimum. Returns 0, or -EINVAL for a page or role that cannot be. */
TK_EXPORT int tk_cache_add(struct cache *cache, const struct page_run *runs, uint64_t count,
                           const uint32_t *next_uses);

/* Writes what happened so far. */
TK_EXPORT void tk_cache_read(const struct cache *cache, struct cache_counts *counts);

/* Frees the cache; NULL is fine. */
TK_EXPORT void tk_cache_free(struct cache *cache);

/* Writes the number of the next use of each page of each run, as the optimum for the setup needs
 * it; a use counts if it can hit: a write that goes by does not, and one that drops the page ends
 * its use. Returns 0, -EINVAL for a page that cannot be or 2^32 - 1 references, or -ENOMEM. */
TK_EXPORT int tk_cache_next_uses(const struct cache_setup *setup, const struct page_run *runs,
                                 uint64_t count, uint32_t *next_uses);

#endif
