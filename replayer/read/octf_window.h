/* The requests of an OCTF trace that wait for their completion, in the order of their events. */
#ifndef TRACEKIT_READ_OCTF_WINDOW_H
#define TRACEKIT_READ_OCTF_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requests at most between the oldest that waits and the newest, and how many there is space for at
 * first; powers of two. The fuzzer makes them small. */
#ifndef OCTF_WINDOW_ROWS
#define OCTF_WINDOW_ROWS (1u << 20)
#define OCTF_FIRST_ROWS (1u << 12)
#endif

struct octf_row {
  uint64_t time_ns, end_ns; /* end_ns: see is_complete */
  uint64_t sector, id;      /* id: 0 when the trace does not number its requests */
  uint32_t sectors;
  int32_t device;        /* index */
  uint32_t older, newer; /* of the same bucket: place + 1, 0 is none */
  uint8_t operation;     /* as in the event */
  bool is_flush, is_fua, is_meta, is_readahead;
  bool is_complete, is_error;
};

struct octf_bucket {
  uint32_t oldest, newest; /* place + 1, 0 is none */
};

/* Embedded by its owner: rows [head, tail) of a ring, which grows as it must: while few requests
 * wait, they stay in the processor's cache. */
struct octf_window {
  struct octf_row *rows;
  struct octf_bucket *buckets;
  uint64_t head, tail;
  uint64_t mask; /* places of the ring - 1, and of the buckets */
};

/* Returns 0 or -ENOMEM; octf_window_close in both cases. */
int octf_window_open(struct octf_window *window);
void octf_window_close(struct octf_window *window);

/* Adds a request; the window must not be full. Returns 0 or -ENOMEM. */
int octf_window_add(struct octf_window *window, const struct octf_row *row);

/* Finds the open request that an event completes: the newest with its `id`, or without one the
 * oldest of the same device, sector and length. It is open no more. NULL when there is none. */
struct octf_row *octf_window_complete(struct octf_window *window, const struct octf_row *like);

/* The oldest request, which leaves. */
struct octf_row *octf_window_take(struct octf_window *window);

/* The oldest request, which stays; NULL when there is none. */
static inline const struct octf_row *octf_window_oldest(const struct octf_window *window) {
  return window->head == window->tail ? NULL : &window->rows[window->head & window->mask];
}

static inline bool octf_window_is_full(const struct octf_window *window) {
  return window->tail - window->head == OCTF_WINDOW_ROWS;
}

#endif
