#include "play/mpmc_queue.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A cell's turn says whose it is: equal to the position, the writer's; one more, the reader's. */
struct cell {
  _Atomic uint64_t turn;
  uint32_t number;
};

struct ring {
  _Alignas(64) _Atomic uint64_t tail; /* next position to write */
  _Alignas(64) _Atomic uint64_t head; /* next position to read */
  _Alignas(64) uint64_t mask;         /* cells, a power of two, minus one */
  struct cell *cells;
};

struct ring *mpmc_queue_new(uint32_t capacity) {
  /* A power of two turns a position into a cell by a mask. */
  uint64_t cells = 2;
  while (cells < capacity)
    cells *= 2;
  struct ring *ring = aligned_alloc(_Alignof(struct ring), sizeof *ring);
  if (ring == NULL)
    return NULL;
  ring->cells = calloc(cells, sizeof *ring->cells);
  if (ring->cells == NULL) {
    free(ring);
    errno = ENOMEM;
    return NULL;
  }
  atomic_init(&ring->tail, 0);
  atomic_init(&ring->head, 0);
  ring->mask = cells - 1;
  for (uint64_t i = 0; i < cells; i++)
    atomic_init(&ring->cells[i].turn, i);
  return ring;
}

/* Claims the position whose cell has reached turn `position + ahead`; NULL when none has. */
static struct cell *claim(struct ring *ring, _Atomic uint64_t *end, uint64_t ahead,
                          uint64_t *position) {
  *position = atomic_load_explicit(end, memory_order_relaxed);
  for (;;) {
    struct cell *cell = &ring->cells[*position & ring->mask];
    /* Acquire: pairs with the release that gave the cell its turn. */
    int64_t early =
        (int64_t)(atomic_load_explicit(&cell->turn, memory_order_acquire) - (*position + ahead));
    if (early < 0)
      return NULL;
    if (early > 0)
      *position = atomic_load_explicit(end, memory_order_relaxed);
    else if (atomic_compare_exchange_weak_explicit(end, position, *position + 1,
                                                   memory_order_relaxed, memory_order_relaxed))
      return cell;
  }
}

bool mpmc_queue_push(struct ring *ring, uint32_t number) {
  uint64_t position;
  struct cell *cell = claim(ring, &ring->tail, 0, &position);
  if (cell == NULL)
    return false;
  cell->number = number;
  atomic_store_explicit(&cell->turn, position + 1, memory_order_release);
  return true;
}

bool mpmc_queue_pop(struct ring *ring, uint32_t *number) {
  uint64_t position;
  struct cell *cell = claim(ring, &ring->head, 1, &position);
  if (cell == NULL)
    return false;
  *number = cell->number;
  atomic_store_explicit(&cell->turn, position + ring->mask + 1, memory_order_release);
  return true;
}

void mpmc_queue_free(struct ring *ring) {
  if (ring == NULL)
    return;
  free(ring->cells);
  free(ring);
}
