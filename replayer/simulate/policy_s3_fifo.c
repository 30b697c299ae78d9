#include <errno.h>
#include <stdlib.h>

#include "simulate/large_pages.h"
#include "simulate/policy.h"

/* Yang, Zhang, Qiu, Yue and Rashmi, SOSP 2023: a small queue of a tenth of the cache filters pages
 * that are used once, the main queue holds the others, and a ghost queue as long as the main one
 * remembers what left the small one. A page goes on to the main queue when it was used more than
 * once in the small queue, and starts there from zero uses; of the main queue it may pass the end
 * once for each use, of which three are remembered. */
enum place { NOWHERE, SMALL, MAIN, GHOST };

#define USES_MAX 3

struct page_state {
  uint8_t place; /* enum place */
  uint8_t uses;  /* 0 to USES_MAX since it came, or moved on */
};

struct s3_fifo {
  struct page_list lists[GHOST + 1]; /* by enum place */
  uint32_t capacity;                 /* of small and main together, in pages */
  uint32_t small_pages;              /* from here on the small queue gives pages up */
  struct page_state *pages;
  struct page_links links[];
};

static int make(uint32_t pages, uint32_t capacity, void **state) {
  struct s3_fifo *cache = large_pages_alloc(sizeof *cache + pages * sizeof *cache->links);
  if (cache == NULL)
    return -ENOMEM;
  for (int place = 0; place <= GHOST; place++)
    cache->lists[place] = PAGE_LIST_EMPTY;
  cache->capacity = capacity;
  cache->small_pages = capacity < 10 ? 1 : capacity / 10;
  cache->pages = large_pages_zeroed((pages + 1ul) * sizeof *cache->pages);
  if (cache->pages == NULL) {
    free(cache);
    return -ENOMEM;
  }
  *state = cache;
  return 0;
}

static void put(struct s3_fifo *cache, uint32_t page, enum place place) {
  cache->pages[page].place = (uint8_t)place;
  page_list_push(&cache->lists[place], cache->links, page);
}

static uint32_t take(struct s3_fifo *cache, enum place place) {
  const uint32_t page = page_list_pop(&cache->lists[place], cache->links);
  cache->pages[page].place = NOWHERE;
  return page;
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
  if (cache->lists[GHOST].count == ghosts)
    (void)take(cache, GHOST); /* the oldest is forgotten */
  put(cache, page, GHOST);
}

/* Returns the page that left, or PAGE_NONE when one only moved on or went round. */
static uint32_t advance(struct s3_fifo *cache) {
  const int is_small =
      cache->lists[SMALL].count >= cache->small_pages || cache->lists[MAIN].count == 0;
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
  if (cache->lists[SMALL].count + cache->lists[MAIN].count == cache->capacity)
    while (victim == PAGE_NONE)
      victim = advance(cache);
  const int is_known = cache->pages[page].place == GHOST;
  if (is_known)
    page_list_remove(&cache->lists[GHOST], cache->links, page);
  cache->pages[page].uses = 0;
  put(cache, page, is_known ? MAIN : SMALL);
  return victim;
}

static void drop(void *state, uint32_t page) {
  struct s3_fifo *cache = state;
  page_list_remove(&cache->lists[cache->pages[page].place], cache->links, page);
  cache->pages[page].place = NOWHERE;
}

static void free_s3_fifo(void *state) {
  struct s3_fifo *cache = state;
  if (cache == NULL)
    return;
  free(cache->pages);
  free(cache);
}

static void expect(const void *state, uint32_t page) {
  const struct s3_fifo *cache = state;
  __builtin_prefetch(&cache->links[page], 1);
  __builtin_prefetch(&cache->pages[page], 1);
}

const struct cache_policy policy_s3_fifo = {make, hit, admit, drop, free_s3_fifo, expect};
