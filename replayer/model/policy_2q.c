#include <errno.h>
#include <stdlib.h>

#include "model/page_ring.h"
#include "model/policy.h"

/* Johnson and Shasha, VLDB 1994, the full version with the names and the parameters of the paper:
 * A1in holds new pages in the order in which they came, A1out remembers as many as half the cache
 * of those that left it, and Am is an LRU list of pages that were remembered when they came again.
 * A1in gives pages up while it has more than a quarter of the cache. A page that comes back leaves
 * A1out before another enters it. */
enum place { A1IN = PAGE_NOWHERE + 1, A1OUT, AM, PLACES };

#define IN_SHARE 4u  /* of the cache: Kin */
#define OUT_SHARE 2u /* of the cache: Kout */

/* A use puts the page at the end of Am anew; pages leave A1out from the middle. */
#define STALE_PER_PAGE 2u

struct two_q {
  struct page_ring lists[PLACES];
  struct page_state *pages;
  uint32_t capacity; /* of A1in and Am together, in pages */
};

static void free_two_q(void *state) {
  struct two_q *cache = state;
  if (cache == NULL)
    return;
  for (int place = A1IN; place < PLACES; place++)
    page_ring_free(&cache->lists[place]);
  free(cache);
}

static int make(struct page_state *pages, uint32_t count, uint32_t capacity, void **state) {
  struct two_q *cache = calloc(1, sizeof *cache);
  if (cache == NULL)
    return -ENOMEM;
  const uint32_t most = capacity < count ? capacity : count;
  int error = 0;
  cache->pages = pages;
  cache->capacity = capacity;
  for (uint8_t place = A1IN; place < PLACES && error == 0; place++)
    error = page_ring_init(&cache->lists[place], place, most, STALE_PER_PAGE * most + 1);
  if (error)
    free_two_q(cache);
  else
    *state = cache;
  return error;
}

static void put(struct two_q *cache, uint32_t page, enum place place) {
  page_ring_push(&cache->lists[place], cache->pages, page);
}

static void drop(void *state, uint32_t page) {
  struct two_q *cache = state;
  page_ring_remove(&cache->lists[cache->pages[page].place], cache->pages, page);
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  struct two_q *cache = state;
  (void)next_use; /* the past decides */
  /* Uses soon after the first one are of the same kind: they say nothing. */
  if (cache->pages[page].place != AM || page_ring_is_newest(&cache->lists[AM], cache->pages, page))
    return;
  drop(cache, page);
  put(cache, page, AM);
}

/* The paper's reclaimfor, of a full cache. */
static uint32_t reclaim(struct two_q *cache) {
  const uint32_t remembered = cache->capacity / OUT_SHARE;
  if (cache->lists[A1IN].count <= cache->capacity / IN_SHARE)
    return page_ring_pop(&cache->lists[AM], cache->pages);
  const uint32_t victim = page_ring_pop(&cache->lists[A1IN], cache->pages);
  if (remembered == 0)
    return victim;
  if (cache->lists[A1OUT].count == remembered)
    (void)page_ring_pop(&cache->lists[A1OUT], cache->pages);
  put(cache, victim, A1OUT);
  return victim;
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct two_q *cache = state;
  const int is_known = cache->pages[page].place == A1OUT;
  uint32_t victim = PAGE_NONE;
  (void)next_use; /* as above */
  if (is_known)
    drop(cache, page);
  if (cache->lists[A1IN].count + cache->lists[AM].count == cache->capacity)
    victim = reclaim(cache);
  put(cache, page, is_known ? AM : A1IN);
  return victim;
}

const struct cache_policy policy_2q = {make, hit, admit, drop, free_two_q};
