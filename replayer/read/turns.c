#include "read/turns.h"

#include <stdbool.h>

static bool is_before(const struct turn *left, const struct turn *right) {
  if (left->time_ns != right->time_ns)
    return left->time_ns < right->time_ns;
  if (left->number != right->number)
    return left->number < right->number;
  return left->input < right->input;
}

static void sift_down(struct turn *heap, size_t count, size_t place) {
  struct turn moved = heap[place];
  for (;;) {
    size_t child = 2 * place + 1;
    if (child >= count)
      break;
    if (child + 1 < count && is_before(&heap[child + 1], &heap[child]))
      child++;
    if (!is_before(&heap[child], &moved))
      break;
    heap[place] = heap[child];
    place = child;
  }
  heap[place] = moved;
}

void turns_order(struct turn *heap, size_t count) {
  for (size_t place = count / 2; place-- > 0;)
    sift_down(heap, count, place);
}

void turns_settle(struct turn *heap, size_t count) {
  if (count > 1)
    sift_down(heap, count, 0);
}
