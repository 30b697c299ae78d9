/* Whose event comes next: a heap of the inputs of one trace, the one with the earliest event first.
 */
#ifndef TRACEKIT_READ_TURNS_H
#define TRACEKIT_READ_TURNS_H

#include <stddef.h>
#include <stdint.h>

/* The event that an input has at hand. Equal times leave in the order of their numbers, and equal
 * numbers in that of the inputs. */
struct turn {
  uint64_t time_ns, number;
  size_t input; /* its index */
};

/* Orders the heap. */
void turns_order(struct turn *heap, size_t count);

/* Puts heap[0], which was replaced, at its place. */
void turns_settle(struct turn *heap, size_t count);

#endif
