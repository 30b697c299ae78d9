/* Requests as runs of touched pages: each page gets the rank of its key among all touched pages,
 * so that the simulators index plain arrays and a request costs one search. */
#ifndef TRACEKIT_MODEL_PAGE_RUNS_H
#define TRACEKIT_MODEL_PAGE_RUNS_H

#include <stdint.h>

#include "common/export.h"

#define PAGE_MAX (1u << 30) /* ranks of pages are below it */
#define PAGE_ROLES 5

/* One request, or a part of at most 65,535 pages of a longer one: 8 bytes. */
struct page_run {
  uint32_t first; /* rank of its first page; the others follow */
  uint16_t count; /* pages, at least 1 */
  uint8_t is_write;
  uint8_t role; /* below PAGE_ROLES */
};

/* One request by the keys of its pages. */
struct page_access {
  int64_t key;    /* of its first page */
  uint32_t count; /* pages, at least 1 */
  uint8_t is_write;
  uint8_t role; /* below PAGE_ROLES */
  uint16_t unused;
};

struct page_runs;

/* Makes a table of `count` strictly ascending keys, which may be freed afterwards; at most 12 bytes
 * a key and 4 MiB. Returns 0, -EINVAL when they do not ascend or are PAGE_MAX or more, or
 * -ENOMEM. */
TK_EXPORT int tk_page_runs_new(const int64_t *keys, uint32_t count, struct page_runs **out);

/* Turns accesses into runs, at most `capacity`. *done is set to the accesses that became runs;
 * call again for the rest. Returns the number of runs, or -ENOENT when the access *done has a page
 * that is not in the table, -EINVAL when its role or count cannot be. */
TK_EXPORT int64_t tk_page_runs_find(const struct page_runs *pages, const struct page_access *rows,
                                    uint64_t count, struct page_run *runs, uint64_t capacity,
                                    uint64_t *done);

/* Frees the table; NULL is fine. */
TK_EXPORT void tk_page_runs_free(struct page_runs *pages);

#endif
