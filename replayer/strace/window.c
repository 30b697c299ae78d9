#include "strace/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int make_room(struct window *window) {
  if (window->head + window->count < window->capacity)
    return 0;
  if (window->head > window->capacity / 2) {
    memmove(window->rows, window->rows + window->head,
            (size_t)window->count * sizeof(*window->rows));
    window->head = 0;
    return 0;
  }
  int64_t capacity = window->capacity ? window->capacity * 2 : 1024;
  struct tk_operation *rows = realloc(window->rows, (size_t)capacity * sizeof(*rows));
  if (!rows)
    return -ENOMEM;
  window->rows = rows;
  window->capacity = capacity;
  return 0;
}

int window_add(struct window *window, const struct tk_operation *row) {
  if (make_room(window))
    return -ENOMEM;
  struct tk_operation *first = window->rows + window->head;
  int64_t low = 0;
  int64_t high = window->count;
  /* Most calls end in the order in which they began. */
  if (high && first[high - 1].start_ns <= row->start_ns)
    low = high;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (first[middle].start_ns <= row->start_ns)
      low = middle + 1;
    else
      high = middle;
  }

  /* Behind those of the same start, so that equal times keep the order of the trace. */
  memmove(first + low + 1, first + low, (size_t)(window->count - low) * sizeof(*first));
  first[low] = *row;
  window->count++;
  return 0;
}

int64_t window_take(struct window *window, int64_t until_ns, struct tk_operation *out,
                    int64_t capacity, int64_t *forced) {
  if (window->count == 0)
    return 0;
  const struct tk_operation *first = window->rows + window->head;
  int64_t most = window->count < capacity ? window->count : capacity;
  int64_t count = 0;
  while (count < most) {
    if (first[count].start_ns >= until_ns) {
      if (window->count - count <= WINDOW_ROWS)
        break;
      *forced += 1;
    }
    count++;
  }
  if (count)
    memcpy(out, first, (size_t)count * sizeof(*out));
  window->head = window->count == count ? 0 : window->head + count;
  window->count -= count;
  return count;
}

void window_clear(struct window *window) {
  free(window->rows);
  *window = (struct window){0};
}
