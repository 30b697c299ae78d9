#include <errno.h>
#include <stdlib.h>

#include "model/page_ring.h"
#include "model/policy.h"

/* A use puts the page at the end of the ring anew. */
#define STALE_PER_PAGE 2u /* the more, the more memory, and the fewer compactions */

enum place { CACHED = PAGE_NOWHERE + 1 };

struct lru {
  struct page_ring ring;
  struct page_state *pages;
  uint32_t capacity; /* pages */
};

static void free_lru(void *state) {
  struct lru *lru = state;
  if (lru == NULL)
    return;
  page_ring_free(&lru->ring);
  free(lru);
}

static int make(struct page_state *pages, uint32_t count, uint32_t capacity, void **state) {
  struct lru *lru = calloc(1, sizeof *lru);
  if (lru == NULL)
    return -ENOMEM;
  const uint32_t most = capacity < count ? capacity : count;
  lru->pages = pages;
  lru->capacity = capacity;
  const int error = page_ring_init(&lru->ring, CACHED, most, STALE_PER_PAGE * most + 1);
  if (error)
    free(lru);
  else
    *state = lru;
  return error;
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  struct lru *lru = state;
  (void)next_use; /* the past decides */
  if (page_ring_is_newest(&lru->ring, lru->pages, page))
    return;
  page_ring_remove(&lru->ring, lru->pages, page);
  page_ring_push(&lru->ring, lru->pages, page);
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct lru *lru = state;
  uint32_t victim = PAGE_NONE;
  (void)next_use; /* as above */
  if (lru->ring.count == lru->capacity)
    victim = page_ring_pop(&lru->ring, lru->pages);
  page_ring_push(&lru->ring, lru->pages, page);
  return victim;
}

static void drop(void *state, uint32_t page) {
  struct lru *lru = state;
  page_ring_remove(&lru->ring, lru->pages, page);
}

const struct cache_policy policy_lru = {make, hit, admit, drop, free_lru};
