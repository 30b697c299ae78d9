#include <errno.h>
#include <stdlib.h>

#include "model/page_ring.h"
#include "model/policy.h"

#define PAGES_PER_STALE 4u /* only dropped pages leave entries behind */

enum place { CACHED = PAGE_NOWHERE + 1 };

/* The clock's hand stands at the oldest page of the ring; what it passes becomes the newest. A page
 * that was used since it came, or since the hand passed it, has one use. */
struct clock {
  struct page_ring ring;
  struct page_state *pages;
  uint32_t capacity; /* pages */
};

static void free_clock(void *state) {
  struct clock *clock = state;
  if (clock == NULL)
    return;
  page_ring_free(&clock->ring);
  free(clock);
}

static int make(struct page_state *pages, uint32_t count, uint32_t capacity, void **state) {
  struct clock *clock = calloc(1, sizeof *clock);
  if (clock == NULL)
    return -ENOMEM;
  const uint32_t most = capacity < count ? capacity : count;
  clock->pages = pages;
  clock->capacity = capacity;
  const int error = page_ring_init(&clock->ring, CACHED, most, most / PAGES_PER_STALE + 1);
  if (error)
    free(clock);
  else
    *state = clock;
  return error;
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  const struct clock *clock = state;
  (void)next_use; /* the past decides */
  clock->pages[page].uses = 1;
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct clock *clock = state;
  uint32_t victim = PAGE_NONE;
  (void)next_use; /* as above */
  while (clock->ring.count == clock->capacity) {
    victim = page_ring_pop(&clock->ring, clock->pages);
    if (clock->pages[victim].uses)
      page_ring_push(&clock->ring, clock->pages, victim);
    clock->pages[victim].uses = 0;
  }
  page_ring_push(&clock->ring, clock->pages, page);
  return victim;
}

static void drop(void *state, uint32_t page) {
  struct clock *clock = state;
  page_ring_remove(&clock->ring, clock->pages, page);
  clock->pages[page].uses = 0;
}

const struct cache_policy policy_clock = {make, hit, admit, drop, free_clock};
