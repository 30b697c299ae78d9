/* Sorts stack distances into cache sizes: which is the smallest of the given sizes that would have
 * held the page. Sizes are exact, for any number of them; the search is a table and a short walk.
 */
#ifndef TRACEKIT_MODEL_SIZE_BUCKETS_H
#define TRACEKIT_MODEL_SIZE_BUCKETS_H

#include <stdint.h>

#define SIZE_BUCKETS_CELLS (32 * 64)

struct size_buckets {
  uint64_t *sizes; /* pages, strictly ascending from 1 on */
  uint32_t count;  /* of them */
  /* The first size that a distance of a cell can need; a cell is a 32nd of an octave. */
  uint32_t start[SIZE_BUCKETS_CELLS];
};

/* Copies the sizes. Returns 0, -EINVAL when there are none or they do not ascend from 1 on, or
 * -ENOMEM. */
int size_buckets_init(struct size_buckets *buckets, const uint64_t *sizes, uint32_t count);

/* Frees the sizes; a zeroed `buckets` is fine. */
void size_buckets_free(struct size_buckets *buckets);

/* Returns the index of the smallest size above `distance` (pages), or the number of sizes. */
uint32_t size_buckets_find(const struct size_buckets *buckets, uint64_t distance);

#endif
