#include <errno.h>
#include <stdlib.h>

#include "simulate/large_pages.h"
#include "simulate/policy.h"

struct fifo {
  struct page_list list;
  uint32_t capacity; /* pages */
  struct page_links links[];
};

static int make(uint32_t pages, uint32_t capacity, void **state) {
  struct fifo *fifo = large_pages_alloc(sizeof *fifo + pages * sizeof *fifo->links);
  if (fifo == NULL)
    return -ENOMEM;
  fifo->list = PAGE_LIST_EMPTY;
  fifo->capacity = capacity;
  *state = fifo;
  return 0;
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
  if (fifo->list.count == fifo->capacity)
    victim = page_list_pop(&fifo->list, fifo->links);
  page_list_push(&fifo->list, fifo->links, page);
  return victim;
}

static void drop(void *state, uint32_t page) {
  struct fifo *fifo = state;
  page_list_remove(&fifo->list, fifo->links, page);
}

static void expect(const void *state, uint32_t page) {
  const struct fifo *fifo = state;
  __builtin_prefetch(&fifo->links[page], 1);
}

const struct cache_policy policy_fifo = {make, hit, admit, drop, free, expect};
