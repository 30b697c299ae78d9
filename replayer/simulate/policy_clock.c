#include <errno.h>
#include <stdlib.h>

#include "simulate/large_pages.h"
#include "simulate/policy.h"

/* The clock's hand stands at the oldest page of the list; what it passes becomes the newest. */
struct clock {
  struct page_list list;
  uint32_t capacity; /* pages */
  uint8_t *is_used;  /* one a page: used since it came or the hand passed it */
  struct page_links links[];
};

static int make(uint32_t pages, uint32_t capacity, void **state) {
  struct clock *clock = large_pages_alloc(sizeof *clock + pages * sizeof *clock->links);
  if (clock == NULL)
    return -ENOMEM;
  clock->list = PAGE_LIST_EMPTY;
  clock->capacity = capacity;
  clock->is_used = large_pages_zeroed(pages + 1ul);
  if (clock->is_used == NULL) {
    free(clock);
    return -ENOMEM;
  }
  *state = clock;
  return 0;
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  const struct clock *clock = state;
  (void)next_use; /* the past decides */
  clock->is_used[page] = 1;
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct clock *clock = state;
  uint32_t victim = PAGE_NONE;
  (void)next_use; /* as above */
  while (clock->list.count == clock->capacity) {
    victim = page_list_pop(&clock->list, clock->links);
    if (clock->is_used[victim])
      page_list_push(&clock->list, clock->links, victim);
    clock->is_used[victim] = 0;
  }
  page_list_push(&clock->list, clock->links, page);
  return victim;
}

static void drop(void *state, uint32_t page) {
  struct clock *clock = state;
  page_list_remove(&clock->list, clock->links, page);
  clock->is_used[page] = 0;
}

static void free_clock(void *state) {
  struct clock *clock = state;
  if (clock == NULL)
    return;
  free(clock->is_used);
  free(clock);
}

static void expect(const void *state, uint32_t page) {
  const struct clock *clock = state;
  __builtin_prefetch(&clock->links[page], 1);
  __builtin_prefetch(&clock->is_used[page], 1);
}

const struct cache_policy policy_clock = {make, hit, admit, drop, free_clock, expect};
