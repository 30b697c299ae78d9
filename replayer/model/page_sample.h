/* Which pages are in a sample: those whose hash is below a threshold (SHARDS, Waldspurger et al.,
 * FAST 2015), so that all references of a page are in it or none. */
#ifndef TRACEKIT_MODEL_PAGE_SAMPLE_H
#define TRACEKIT_MODEL_PAGE_SAMPLE_H

#include <stdint.h>

#include "common/export.h"
#include "common/hash.h"
#include "model/page_runs.h"

#define SHARDS_SCALE (1u << 24) /* the threshold at which every page is sampled */

#define PAGE_SAMPLE_SALT UINT64_C(0x9e3779b97f4a7c15) /* page 0 must not have the hash 0 */
#define PAGE_SAMPLE_SHIFT 40 /* the highest 24 bits of a hash decide whether a page is sampled */

/* Writes the references of the pages from threshold `low` (in the sample) to `high` (not), in their
 * order, each as an access to one page. `out` has space for `capacity`, at least the pages of the
 * longest access. *done is set to the accesses that were taken; call again for the rest. Returns
 * the number written. */
TK_EXPORT uint64_t tk_page_sample(const struct page_access *rows, uint64_t count, uint32_t low,
                                  uint32_t high, struct page_access *out, uint64_t capacity,
                                  uint64_t *done);

#endif
