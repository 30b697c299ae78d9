#include <errno.h>
#include <stdlib.h>

#include "model/page_ring.h"
#include "model/policy.h"

/* Yang, Zhang, Qiu, Yue and Rashmi, SOSP 2023: a small queue of a tenth of the cache filters pages
 * that are used once, the main queue holds the others, and a ghost queue as long as the main one
 * remembers what left the small one. A page goes on to the main queue when it was used more than
 * once in the small queue, and starts there from zero uses; of the main queue it may pass the end
 * once for each use, of which three are remembered. */
enum place { SMALL = PAGE_NOWHERE + 1, MAIN, GHOST };

#define USES_MAX 3
#define PAGES_PER_STALE 4u /* only dropped pages leave entries behind, and known ghosts */

struct s3_fifo {
  struct page_ring rings[GHOST + 1]; /* by enum place */
  struct page_state *pages;
  uint32_t capacity;    /* of small and main together, in pages */
  uint32_t small_pages; /* from here on the small queue gives pages up */
};

static void free_s3_fifo(void *state) {
  struct s3_fifo *cache = state;
  if (cache == NULL)
    return;
  for (int place = SMALL; place <= GHOST; place++)
    page_ring_free(&cache->rings[place]);
  free(cache);
}

static int make(struct page_state *pages, uint32_t count, uint32_t capacity, void **state) {
  struct s3_fifo *cache = calloc(1, sizeof *cache);
  if (cache == NULL)
    return -ENOMEM;
  /* Either queue may have the whole cache for itself. */
  const uint32_t most = capacity < count ? capacity : count;
  int error = 0;
  cache->pages = pages;
  cache->capacity = capacity;

  /* A tenth of the cache for new pages, as in the paper. */
  cache->small_pages = capacity < 10 ? 1 : capacity / 10;
  for (uint8_t place = SMALL; place <= GHOST && error == 0; place++)
    error = page_ring_init(&cache->rings[place], place, most, most / PAGES_PER_STALE + 1);
  if (error)
    free_s3_fifo(cache);
  else
    *state = cache;
  return error;
}

static void put(struct s3_fifo *cache, uint32_t page, enum place place) {
  page_ring_push(&cache->rings[place], cache->pages, page);
}

static uint32_t take(struct s3_fifo *cache, enum place place) {
  return page_ring_pop(&cache->rings[place], cache->pages);
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  const struct s3_fifo *cache = state;
  (void)next_use; /* the past decides */
  if (cache->pages[page].uses < USES_MAX)
    cache->pages[page].uses++;
}

static void remember(struct s3_fifo *cache, uint32_t page) {
  const uint32_t ghosts = cache->capacity - cache->small_pages;
  if (ghosts == 0)
    return;
  if (cache->rings[GHOST].count == ghosts)
    (void)take(cache, GHOST); /* the oldest is forgotten */
  put(cache, page, GHOST);
}

/* Returns the page that left, or PAGE_NONE when one only moved on or went round. */
static uint32_t advance(struct s3_fifo *cache) {
  const int is_small =
      cache->rings[SMALL].count >= cache->small_pages || cache->rings[MAIN].count == 0;
  const uint32_t page = take(cache, is_small ? SMALL : MAIN);
  struct page_state *state = &cache->pages[page];
  if (is_small && state->uses <= 1) {
    remember(cache, page);
    return page;
  }
  if (!is_small && state->uses == 0)
    return page;
  state->uses = is_small ? 0 : (uint8_t)(state->uses - 1);
  put(cache, page, MAIN);
  return PAGE_NONE;
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct s3_fifo *cache = state;
  uint32_t victim = PAGE_NONE;
  (void)next_use; /* as above */
  if (cache->rings[SMALL].count + cache->rings[MAIN].count == cache->capacity)
    while (victim == PAGE_NONE)
      victim = advance(cache);
  const int is_known = cache->pages[page].place == GHOST;
  if (is_known)
    page_ring_remove(&cache->rings[GHOST], cache->pages, page);
  cache->pages[page].uses = 0;
  put(cache, page, is_known ? MAIN : SMALL);
  return victim;
}

static void drop(void *state, uint32_t page) {
  struct s3_fifo *cache = state;
  page_ring_remove(&cache->rings[cache->pages[page].place], cache->pages, page);
}

const struct cache_policy policy_s3_fifo = {make, hit, admit, drop, free_s3_fifo};
