/* Turns the columns of a trace's requests into accesses to pages. */
#ifndef TRACEKIT_MODEL_ACCESSES_H
#define TRACEKIT_MODEL_ACCESSES_H

#include <stdint.h>

#include "common/export.h"
#include "model/page_runs.h"

/* What an operation is for a cache. */
enum access_kind { ACCESS_READ, ACCESS_WRITE, ACCESS_NEITHER };

/* The columns of texts hold indices into a table each; a table's length is beside it. */
struct access_columns {
  const int64_t *sector;
  const int64_t *length_bytes;
  const int32_t *device;
  const int32_t *operation;
  const int32_t *role;
  const int64_t *first_keys; /* by device: the key of its page 0 */
  const uint8_t *kinds;      /* by operation: enum access_kind */
  const uint8_t *roles;      /* by role, below PAGE_ROLES */
  uint32_t devices;
  uint32_t operations;
  uint32_t role_count;
  uint32_t page_shift; /* a page has 2^page_shift bytes, 9 to 31 */
};

/* Writes the accesses of `count` requests to `out`, which has space for as many. Requests beyond
 * 2^57 sectors, longer than 32 bits can say, or without length are no accesses; *impossible grows
 * by the reads and writes among them. Returns the number of accesses, or -EINVAL for an index that
 * is not in its table. */
TK_EXPORT int64_t tk_accesses_make(const struct access_columns *columns, uint64_t count,
                                   struct page_access *out, uint64_t *impossible);

#endif
