/* Rows that wait until no call that began earlier can still end: the order of starts. */
#ifndef TRACEKIT_STRACE_WINDOW_H
#define TRACEKIT_STRACE_WINDOW_H

#include <stdint.h>

#include "strace/operation.h"

#define WINDOW_ROWS (1 << 19) /* then the oldest leave, whatever is still going on */

/* Embedded by its owner; all zero is a valid empty window. */
struct window {
  struct tk_operation *rows;
  int64_t head; /* of the rows, in order of start, the first that has not left */
  int64_t count, capacity;
};

/* Puts a row where it belongs, behind those of the same start. Returns 0 or -ENOMEM. */
int window_add(struct window *window, const struct tk_operation *row);

/* Moves up to `capacity` rows that began before `until_ns` to `out`, and as many as are too many
 * for the window. Returns how many; adds to `forced` those that left too early. */
int64_t window_take(struct window *window, int64_t until_ns, struct tk_operation *out,
                    int64_t capacity, int64_t *forced);

void window_clear(struct window *window);

#endif
