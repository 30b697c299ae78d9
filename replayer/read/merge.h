/* Joins several inputs into one stream of records in order of time. */
#ifndef TRACEKIT_READ_MERGE_H
#define TRACEKIT_READ_MERGE_H

#include <stddef.h>

#include "read/merge_heap.h"
#include "read/source.h"

struct merge {
  struct source *sources;  /* owned */
  size_t count;            /* of sources */
  struct merge_head *heap; /* of the sources with a record left */
  size_t live;             /* entries of the heap */
  bool is_taken;           /* the first record of heap[0] was delivered */
  size_t opened;           /* sources of which the first record has been read */
};

/* Prepares the merge of `count` open descriptors. Returns 0 or -ENOMEM; merge_close in both cases.
 */
int merge_open(struct merge *merge, const int32_t *fds, size_t count, bool keeps_whole);

/* Takes the earliest record; it is valid until the next call. Equal times leave in the order of the
 * inputs. Returns 1, 0 at the end of all inputs, -EBADMSG with `problem` filled. */
int merge_next(struct merge *merge, const struct record **out, struct problem *problem);

/* Frees the sources. */
void merge_close(struct merge *merge);

#endif
