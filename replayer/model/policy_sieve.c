#include <errno.h>
#include <stdlib.h>

#include "model/page_ring.h"
#include "model/policy.h"

/* Zhang, Yang, Yue, Vigfusson and Rashmi, NSDI 2024: a queue in the order of arrival, in which no
 * page moves. A hand goes from the oldest page to the newest and round; a page that was used since
 * the hand passed it stays where it is and loses that use, the first other one leaves. New pages
 * come in behind the hand's back, so they are looked at only after a whole round. */
enum place { CACHED = PAGE_NOWHERE + 1 };

struct sieve {
  struct page_ring ring;
  struct page_state *pages;
  uint32_t capacity; /* pages */
  uint32_t hand;     /* the page that it looks at next; PAGE_NONE: the oldest */
};

static void free_sieve(void *state) {
  struct sieve *sieve = state;
  if (sieve == NULL)
    return;
  page_ring_free(&sieve->ring);
  free(sieve);
}

static int make(struct page_state *pages, uint32_t count, uint32_t capacity, void **state) {
  struct sieve *sieve = calloc(1, sizeof *sieve);
  if (sieve == NULL)
    return -ENOMEM;
  const uint32_t most = capacity < count ? capacity : count;
  sieve->pages = pages;
  sieve->capacity = capacity;
  sieve->hand = PAGE_NONE;
  /* Each page that leaves does so from the middle: as many stale entries as pages. */
  const int error = page_ring_init(&sieve->ring, CACHED, most, most + 1);
  if (error)
    free(sieve);
  else
    *state = sieve;
  return error;
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  const struct sieve *sieve = state;
  (void)next_use; /* the past decides */
  sieve->pages[page].uses = 1;
}

/* Returns the page that came after one, PAGE_NONE after the newest. */
static uint32_t newer(const struct sieve *sieve, uint32_t page) {
  const struct page_ring *ring = &sieve->ring;
  uint32_t slot = sieve->pages[page].slot;
  uint32_t left = ring->next > slot ? ring->next - slot : ring->capacity - slot + ring->next;
  while (--left > 0) {
    slot = page_ring_after(ring, slot, 1);
    page_ring_look_ahead(ring, sieve->pages, slot, left);
    if (page_ring_holds(ring, sieve->pages, slot))
      return ring->entries[slot];
  }
  return PAGE_NONE;
}

static void drop(void *state, uint32_t page) {
  struct sieve *sieve = state;
  if (sieve->hand == page)
    sieve->hand = newer(sieve, page);
  page_ring_remove(&sieve->ring, sieve->pages, page);
  sieve->pages[page].uses = 0;
}

static uint32_t evict(struct sieve *sieve) {
  for (;;) {
    if (sieve->hand == PAGE_NONE)
      sieve->hand = page_ring_oldest(&sieve->ring, sieve->pages);
    const uint32_t page = sieve->hand;
    if (sieve->pages[page].uses == 0) {
      drop(sieve, page);
      return page;
    }
    sieve->pages[page].uses = 0;
    sieve->hand = newer(sieve, page);
  }
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct sieve *sieve = state;
  (void)next_use; /* as above */
  const uint32_t victim = sieve->ring.count == sieve->capacity ? evict(sieve) : PAGE_NONE;
  page_ring_push(&sieve->ring, sieve->pages, page);
  return victim;
}

const struct cache_policy policy_sieve = {make, hit, admit, drop, free_sieve};
