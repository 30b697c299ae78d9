/* A priority queue in an array: the item that stands before all others is items[0].
 *
 * HEAP_DEFINE(name, item_type, children, is_before) defines it for one type of item, with a fixed
 * number of children an item (2, or 4 where the array is larger than the processor's caches) and
 * the order bool is_before(const item_type *, const item_type *). The array and the number of its
 * items are the caller's. All functions take at most a logarithm of steps, but for order:
 *
 *   void name_push(item_type *items, size_t count, item_type item);
 *     Adds the item to the `count` that are there; the array must have space for one more.
 *   void name_pop(item_type *items, size_t count);
 *     Removes items[0] of the `count` (at least 1) that are there.
 *   void name_settle(item_type *items, size_t count);
 *     Moves items[0], which was replaced, to its place; `count` may be 0.
 *   void name_order(item_type *items, size_t count);
 *     Makes a heap of an array in any order, in linear time.
 *
 * Items that are equal leave in an order that depends on nothing but the calls before. */
#ifndef TRACEKIT_COMMON_HEAP_H
#define TRACEKIT_COMMON_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#define HEAP_FUNCTION __attribute__((unused)) static inline

/* An empty place moves along the path, and the item is stored once at its end. Of two children the
 * first is found by a sum: nothing predicts which one it is, and a wrong branch costs more than a
 * level. Of more, nearly all items have all, and a loop of fixed length chooses among them. */
#define HEAP_DEFINE(name, item_type, children, is_before)                                          \
  HEAP_FUNCTION void name##_push(item_type *items, size_t count, item_type item) {                 \
    size_t place = count;                                                                          \
    for (; place > 0 && is_before(&item, &items[(place - 1) / (children)]);                        \
         place = (place - 1) / (children))                                                         \
      items[place] = items[(place - 1) / (children)];                                              \
    items[place] = item;                                                                           \
  }                                                                                                \
                                                                                                   \
  HEAP_FUNCTION void name##_sink(item_type *items, size_t count, size_t place, item_type item) {   \
    for (size_t next; (next = (children) * place + 1) < count; place = next) {                     \
      if ((children) == 2) {                                                                       \
        next += next + 1 < count && is_before(&items[next + 1], &items[next]);                     \
      } else {                                                                                     \
        const size_t first = next;                                                                 \
        if (first + (children) <= count)                                                           \
          for (size_t child = 1; child < (children); child++)                                      \
            next = is_before(&items[first + child], &items[next]) ? first + child : next;          \
        else                                                                                       \
          for (size_t child = first + 1; child < count; child++)                                   \
            next = is_before(&items[child], &items[next]) ? child : next;                          \
      }                                                                                            \
      if (!is_before(&items[next], &item))                                                         \
        break;                                                                                     \
      items[place] = items[next];                                                                  \
    }                                                                                              \
    items[place] = item;                                                                           \
  }                                                                                                \
                                                                                                   \
  HEAP_FUNCTION void name##_pop(item_type *items, size_t count) {                                  \
    if (count > 1)                                                                                 \
      name##_sink(items, count - 1, 0, items[count - 1]);                                          \
  }                                                                                                \
                                                                                                   \
  HEAP_FUNCTION void name##_settle(item_type *items, size_t count) {                               \
    if (count > 1)                                                                                 \
      name##_sink(items, count, 0, items[0]);                                                      \
  }                                                                                                \
                                                                                                   \
  HEAP_FUNCTION void name##_order(item_type *items, size_t count) {                                \
    for (size_t place = count / (children) + 1; place-- > 0;)                                      \
      if (place < count)                                                                           \
        name##_sink(items, count, place, items[place]);                                            \
  }

#endif
