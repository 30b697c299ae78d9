/* Exact LRU miss ratio curves: the hits of every cache size in one pass over the runs.
 *
 * With `writes_allocate`, reads and writes share one stack. Without it a write neither brings a
 * page into the cache nor makes it younger, and hits where a read left the page. */
#ifndef TRACEKIT_MODEL_CURVE_H
#define TRACEKIT_MODEL_CURVE_H

#include <stdint.h>

#include "common/export.h"
#include "model/page_runs.h"

#define CURVE_ROWS (2 * PAGE_ROLES) /* role * 2 + is_write */

struct curve;

/* Makes a curve of `page_count` pages at `size_count` sizes in pages, strictly ascending from 1.
 * Returns 0, -EINVAL for sizes that do not ascend or too many pages, or -ENOMEM. */
TK_EXPORT int tk_curve_new(uint32_t page_count, const uint64_t *sizes, uint32_t size_count,
                           int writes_allocate, struct curve **out);

/* Counts runs in their order. Returns 0, or -EINVAL for a page or role that cannot be. */
TK_EXPORT int tk_curve_add(struct curve *curve, const struct page_run *runs, uint64_t count);

/* Writes CURVE_ROWS rows of size_count + 2 counts: references whose smallest sufficient size is
 * that of the column, then those that need more than the largest, then first references. */
TK_EXPORT void tk_curve_read(const struct curve *curve, uint64_t *counts);

/* Returns the bytes that the curve takes. */
TK_EXPORT uint64_t tk_curve_bytes(const struct curve *curve);

/* Frees the curve; NULL is fine. */
TK_EXPORT void tk_curve_free(struct curve *curve);

#endif
