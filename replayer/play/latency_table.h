/* How long requests take by operation, length, depth and share of writes, as it was measured. */
#ifndef TRACEKIT_PLAY_LATENCY_TABLE_H
#define TRACEKIT_PLAY_LATENCY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "play/quantiles.h"

#define LATENCY_CELLS_MAX 1024U

/* What a request is among the others: the place in the table that it looks for. */
struct latency_place {
  bool is_read;
  uint64_t length_bytes; /* from 1 */
  uint64_t depth;        /* requests under way, itself included, from 1 */
  double write_ratio;    /* of the requests around it, 0 to 1 */
};

struct latency_cell {
  struct latency_place place;
  struct quantiles times; /* of whole requests, transfer included */
};

struct latency_table; /* opaque */

/* Reads "r|w/LENGTH/DEPTH/RATIO/QUANTILES" of `length` characters, 1 to LATENCY_CELLS_MAX of them
 * with ; between, no time above `maximum_ns`. Returns 0, -EINVAL or -ENOMEM; `*out` is to be freed
 * after 0. */
int latency_table_parse(const char *text, size_t length, uint64_t maximum_ns,
                        struct latency_table **out);

/* Returns the cell of this operation that is nearest, the first of several: by factors of two in
 * length and in depth, and quarters of the share of writes. NULL when there is none of it. */
const struct latency_cell *latency_table_find(const struct latency_table *table,
                                              const struct latency_place *place);

/* Returns how many cells the text of a table has. */
uint32_t latency_cells(const char *text, size_t length);

/* NULL is fine. */
void latency_table_free(struct latency_table *table);

#endif
