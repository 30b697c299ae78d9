/* Reads the rows of a trace for a placement model: rejects rows that are not valid, counts what
 * costs nothing, and hands over each transfer in the order in which the device got it. */
#ifndef TRACEKIT_MODEL_ROW_READER_H
#define TRACEKIT_MODEL_ROW_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/block_map.h"
#include "model/issue_queue.h"
#include "model/placement.h"

/* Where requests are looked up: brought closer before it is needed, for the tables of a long trace
 * do not fit the caches. */
struct row_lookup {
  const struct block_map *map; /* NULL: not looked up */
  const struct tk_placement_device *devices;
  const void *blocks; /* an entry of `block_bytes` for each key of the map; NULL for none */
  size_t block_bytes;
};

/* Who takes the requests. Both return 0 or a negative errno that ends the reading. A transfer's
 * `issue_ns` is when it reached the device: issued, or queued where requests count as queued. One
 * with a preflush comes to `flush` first, and at once then to `transfer`, both with `is_preflush`.
 */
struct row_sink {
  void *context;
  int (*transfer)(void *context, const struct issue_request *request);
  int (*flush)(void *context, const struct issue_request *request);
};

struct row_reader {
  struct issue_queue *queue; /* NULL when requests are charged as queued */
  uint32_t device_count;
  struct tk_placement_totals *totals; /* of the owner */
  struct row_lookup lookup;           /* the owner may set it after row_reader_init */
};

/* Prepares a reader. Returns 0 or -ENOMEM. */
int row_reader_init(struct row_reader *reader, uint32_t device_count, bool as_issued,
                    struct tk_placement_totals *totals);

/* Reads rows. Returns 0; -EINVAL for a code out of range, -EEXIST for a request id seen twice,
 * -ENOMEM, or what the sink returned. */
int row_reader_add(struct row_reader *reader, const struct tk_placement_rows *rows,
                   const struct row_sink *sink);

/* Hands over what is still queued. Returns 0 or what the sink returned. */
int row_reader_finish(struct row_reader *reader, const struct row_sink *sink);

/* Frees what a reader holds; one of zeros is fine. */
void row_reader_free(struct row_reader *reader);

#endif
