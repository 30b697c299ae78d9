/* Row buffers of a memory: hits of every number of buffers in one pass for one size of row.
 *
 * An access is a line, or a row where that is smaller. Reads and writes both open the row. Rows are
 * held either by the buffers that were used last (LRU), or in banks: row r in buffer r modulo the
 * number of buffers. What a request makes in a row costs one search at any length. */
#ifndef TRACEKIT_MODEL_BUFFER_H
#define TRACEKIT_MODEL_BUFFER_H

#include <stdint.h>

#include "common/export.h"
#include "model/page_runs.h"

#define BUFFER_ROWS (2 * PAGE_ROLES) /* role * 2 + is_write */
#define BUFFER_MOST 1024
#define BUFFER_SECTOR_SHIFT 9 /* keys of accesses are sectors of 512 bytes */

struct buffer_setup {
  uint32_t row_shift;  /* log2 of the bytes of a row, at most 30 */
  uint32_t line_shift; /* log2 of the bytes of a line, at most 30 */
  uint32_t count;      /* numbers of buffers in `buffers` */
  uint32_t unused;
  const uint32_t *buffers; /* strictly ascending from 1 to BUFFER_MOST; copied */
};

struct buffer;

/* Makes closed buffers. Returns 0, -EINVAL for a setup that cannot be, or -ENOMEM. */
TK_EXPORT int tk_buffer_new(const struct buffer_setup *setup, struct buffer **out);

/* Counts accesses in their order, keys and counts in sectors, key at least 0. Returns 0, or -EINVAL
 * for a key, count or role that cannot be. */
TK_EXPORT int tk_buffer_add(struct buffer *buffer, const struct page_access *rows, uint64_t count);

/* Writes BUFFER_ROWS rows of 1 + 2 * count: accesses, LRU hits and banked hits by number of
 * buffers. */
TK_EXPORT void tk_buffer_read(const struct buffer *buffer, uint64_t *counts);

/* Frees the buffers; NULL is fine. */
TK_EXPORT void tk_buffer_free(struct buffer *buffer);

#endif
