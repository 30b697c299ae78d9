#include <errno.h>
#include <stdlib.h>

#include "simulate/large_pages.h"
#include "simulate/policy.h"

struct lru {
  struct page_list list;
  uint32_t capacity; /* pages */
  struct page_links links[];
};

static int make(uint32_t pages, uint32_t capacity, void **state) {
  struct lru *lru = large_pages_alloc(sizeof *lru + pages * sizeof *lru->links);
  if (lru == NULL)
    return -ENOMEM;
  lru->list = PAGE_LIST_EMPTY;
  lru->capacity = capacity;
  *state = lru;
  return 0;
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  struct lru *lru = state;
  (void)next_use; /* the past decides */
  if (lru->list.newest == page)
    return;
  page_list_remove(&lru->list, lru->links, page);
  page_list_push(&lru->list, lru->links, page);
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct lru *lru = state;
  uint32_t victim = PAGE_NONE;
  (void)next_use; /* as above */
  if (lru->list.count == lru->capacity)
    victim = page_list_pop(&lru->list, lru->links);
  page_list_push(&lru->list, lru->links, page);
  return victim;
}

static void drop(void *state, uint32_t page) {
  struct lru *lru = state;
  page_list_remove(&lru->list, lru->links, page);
}

static void expect(const void *state, uint32_t page) {
  const struct lru *lru = state;
  __builtin_prefetch(&lru->links[page], 1);
}

const struct cache_policy policy_lru = {make, hit, admit, drop, free, expect};
