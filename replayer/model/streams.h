/* Streams of items: how far each is from the one before it in its stream, and how long the runs are
 * of items that begin where the one before ended. Items of all streams come in one order. */
#ifndef TRACEKIT_MODEL_STREAMS_H
#define TRACEKIT_MODEL_STREAMS_H

#include <stdint.h>

#include "common/export.h"

#define STREAMS_NONE INT64_MIN /* an item that is not there, or a distance that there is not */

struct streams; /* opaque */

/* `count` items in order, one array a column; NULL for `ends`: an item ends where it begins. */
struct streams_batch {
  uint64_t count;
  const uint32_t *streams; /* below the handle's count */
  const int64_t *begins;   /* STREAMS_NONE: this item belongs to no stream */
  const int64_t *ends;
};

/* Makes a handle for `count` streams without items. Returns 0 or -ENOMEM. */
TK_EXPORT int tk_streams_new(uint32_t count, struct streams **out);

/* Frees a handle; NULL is fine. */
TK_EXPORT void tk_streams_free(struct streams *streams);

/* Adds a batch. Writes to distances[i] how far item i begins from the end of the one before it,
 * STREAMS_NONE for the first; and, where `runs` is no NULL, to runs[i] how many items the run has
 * that ends before item i, STREAMS_NONE when none does. Returns 0, or -EINVAL for a stream that
 * there is not. */
TK_EXPORT int tk_streams_add(struct streams *streams, const struct streams_batch *batch,
                             int64_t *distances, int64_t *runs);

/* Writes to runs[s] how many items the latest run of stream s has; STREAMS_NONE without items. */
TK_EXPORT void tk_streams_runs(const struct streams *streams, int64_t *runs);

#endif
