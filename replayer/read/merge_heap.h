/* Which input of a trace has the next event: a heap of the inputs, the earliest event first. */
#ifndef TRACEKIT_READ_MERGE_HEAP_H
#define TRACEKIT_READ_MERGE_HEAP_H

#include <stdint.h>

#include "common/heap.h"

/* The next event of an input. Equal times leave in the order of their numbers, and equal numbers in
 * that of the inputs. */
struct merge_head {
  uint64_t time_ns, number;
  size_t input; /* its index */
};

static inline bool merge_head_is_before(const struct merge_head *left,
                                        const struct merge_head *right) {
  if (left->time_ns != right->time_ns)
    return left->time_ns < right->time_ns;
  if (left->number != right->number)
    return left->number < right->number;
  return left->input < right->input;
}

HEAP_DEFINE(merge_heap, struct merge_head, 2, merge_head_is_before)

#endif
