#include <errno.h>
#include <stdlib.h>

#include "model/page_ring.h"
#include "model/policy.h"

#define PAGES_PER_STALE 4u /* only dropped pages leave entries behind */

enum place { CACHED = PAGE_NOWHERE + 1 };

struct fifo {
  struct page_ring ring;
  struct page_state *pages;
  uint32_t capacity; /* pages */
};

static void free_fifo(void *state) {
  struct fifo *fifo = state;
  if (fifo == NULL)
    return;
  page_ring_free(&fifo->ring);
  free(fifo);
}

static int make(struct page_state *pages, uint32_t count, uint32_t capacity, void **state) {
  struct fifo *fifo = calloc(1, sizeof *fifo);
  if (fifo == NULL)
    return -ENOMEM;
  const uint32_t most = capacity < count ? capacity : count;
  fifo->pages = pages;
  fifo->capacity = capacity;
  const int error = page_ring_init(&fifo->ring, CACHED, most, most / PAGES_PER_STALE + 1);
  if (error)
    free(fifo);
  else
    *state = fifo;
  return error;
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  /* Use changes nothing: only the order of arrival counts. */
  (void)state;
  (void)page;
  (void)next_use;
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct fifo *fifo = state;
  uint32_t victim = PAGE_NONE;
  (void)next_use; /* as above */
  if (fifo->ring.count == fifo->capacity)
    victim = page_ring_pop(&fifo->ring, fifo->pages);
  page_ring_push(&fifo->ring, fifo->pages, page);
  return victim;
}

static void drop(void *state, uint32_t page) {
  struct fifo *fifo = state;
  page_ring_remove(&fifo->ring, fifo->pages, page);
}

const struct cache_policy policy_fifo = {make, hit, admit, drop, free_fifo};
