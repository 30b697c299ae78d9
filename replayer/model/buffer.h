/* Row buffers of a memory: what every number of buffers would hit, in one pass for one size of row.
 *
 * Reads and writes both open the rows of what they touch. Rows are held either by the buffers that
 * were used last (LRU), or in banks: row r in buffer r modulo the number of buffers. A row that was
 * written is written back when it is closed. An access is what is touched of one line; it hits if
 * all of its rows are open. */
#ifndef TRACEKIT_MODEL_BUFFER_H
#define TRACEKIT_MODEL_BUFFER_H

#include <stdint.h>

#include "common/export.h"
#include "model/memory_caches.h"

#define BUFFER_KINDS 2 /* reads, writes */
#define BUFFER_MOST 1024

struct buffer_setup {
  uint32_t row_shift;  /* log2 of the bytes of a row, at most 30 */
  uint32_t line_shift; /* log2 of the bytes of a line, at most 30 */
  uint32_t count;      /* numbers of buffers in `buffers` */
  uint32_t unused;
  const uint32_t *buffers; /* strictly ascending from 1 to BUFFER_MOST; copied */
};

/* Counts of reads or writes with a number of buffers. */
struct buffer_counts {
  uint64_t accesses; /* the same of all numbers of buffers, as are bytes */
  uint64_t bytes;
  uint64_t hits;       /* accesses all of whose rows were open */
  uint64_t row_reads;  /* rows that were opened */
  uint64_t row_writes; /* rows that were closed and had been written; of writes */
};

struct buffer;

/* Makes closed buffers. Returns 0, -EINVAL for a setup that cannot be, or -ENOMEM. */
TK_EXPORT int tk_buffer_new(const struct buffer_setup *setup, struct buffer **out);

/* Counts accesses in their order. Returns 0. */
TK_EXPORT int tk_buffer_add(struct buffer *buffer, const struct memory_access *rows,
                            uint64_t count);

/* Writes 2 * count rows of BUFFER_KINDS: those of LRU by number of buffers, then those of banks. */
TK_EXPORT void tk_buffer_read(const struct buffer *buffer, struct buffer_counts *counts);

/* Frees the buffers; NULL is fine. */
TK_EXPORT void tk_buffer_free(struct buffer *buffer);

#endif
