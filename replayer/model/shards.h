/* Sampled LRU miss ratio curves: SHARDS (Waldspurger et al., FAST 2015).
 *
 * A page is sampled when 24 bits of its hash are below a threshold, so that all references of a
 * page count or none; distances among sampled pages are scaled up by the sampling rate. With a
 * limit on pages the threshold falls as pages come. What the sample has too many or too few
 * references of is corrected in the smallest size by the reader (SHARDS-adj), who gets the sums by
 * group of pages, too: the groups' spread is the sampling error. Needs no table of the pages, and
 * memory only for the sample. Every reference touches (writes allocate). */
#ifndef TRACEKIT_MODEL_SHARDS_H
#define TRACEKIT_MODEL_SHARDS_H

#include <stdint.h>

#include "common/export.h"
#include "model/page_runs.h"
#include "model/page_sample.h"

#define SHARDS_GROUPS 32

struct shards;

struct shards_totals {
  uint64_t references[2 * PAGE_ROLES]; /* of all pages, by role * 2 + is_write */
  uint64_t sampled;                    /* references of sampled pages */
  uint64_t pages;                      /* pages in the sample now */
  uint64_t threshold;                  /* of SHARDS_SCALE: the sampling rate now */
  uint64_t bytes;                      /* memory taken */
};

/* Makes a sampler that begins at `threshold` of SHARDS_SCALE; `page_limit` 0 leaves it there, else
 * the sample never holds more pages. Sizes as in curve.h. Returns 0, -EINVAL for sizes that do not
 * ascend or a threshold of 0 or above SHARDS_SCALE, or -ENOMEM. */
TK_EXPORT int tk_shards_new(const uint64_t *sizes, uint32_t size_count, uint32_t threshold,
                            uint32_t page_limit, struct shards **out);

/* Samples accesses in their order; keys are any numbers. Returns 0, -EINVAL for a role that cannot
 * be, or -ENOMEM. */
TK_EXPORT int tk_shards_add(struct shards *shards, const struct page_access *rows, uint64_t count);

/* Writes SHARDS_GROUPS tables of 2 * PAGE_ROLES rows and size_count + 2 columns, as tk_curve_read
 * has one: sums of references, each weighted by the inverse of the rate at its time. */
TK_EXPORT void tk_shards_read(const struct shards *shards, double *sums,
                              struct shards_totals *totals);

/* Frees the sampler; NULL is fine. */
TK_EXPORT void tk_shards_free(struct shards *shards);

#endif
