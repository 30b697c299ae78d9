#include <errno.h>
#include <stdlib.h>

#include "simulate/policy.h"

/* Belady, IBM Systems Journal 1966: of the resident pages the one leaves whose next use is last; of
 * several that are never used again, the one with the highest number. The page that comes in always
 * stays, as in the other policies. The heap has the page to leave at its top. */
struct optimum {
  uint32_t capacity;   /* pages */
  uint32_t count;      /* pages in the heap */
  uint32_t *heap;      /* `capacity` pages */
  uint32_t *places;    /* of each page in the heap, where it is there */
  uint32_t next_use[]; /* of each page, NEXT_USE_NEVER included */
};

static void free_optimum(void *state) {
  struct optimum *cache = state;
  if (cache == NULL)
    return;
  free(cache->heap);
  free(cache->places);
  free(cache);
}

static int make(uint32_t pages, uint32_t capacity, void **state) {
  struct optimum *cache = calloc(1, sizeof *cache + pages * sizeof *cache->next_use);
  if (cache == NULL)
    return -ENOMEM;
  cache->capacity = capacity;
  cache->heap = malloc((capacity < pages ? capacity : pages + 1ul) * sizeof *cache->heap);
  cache->places = malloc((pages + 1ul) * sizeof *cache->places);
  if (cache->heap == NULL || cache->places == NULL) {
    free_optimum(cache);
    return -ENOMEM;
  }
  *state = cache;
  return 0;
}

static int leaves_before(const struct optimum *cache, uint32_t a, uint32_t b) {
  return cache->next_use[a] != cache->next_use[b] ? cache->next_use[a] > cache->next_use[b] : a > b;
}

static void set(struct optimum *cache, uint32_t place, uint32_t page) {
  cache->heap[place] = page;
  cache->places[page] = place;
}

/* Returns the place that a page of this urgency takes, moving others down. */
static uint32_t rise(struct optimum *cache, uint32_t place, uint32_t page) {
  while (place > 0 && leaves_before(cache, page, cache->heap[(place - 1) / 2])) {
    set(cache, place, cache->heap[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  return place;
}

static uint32_t sink(struct optimum *cache, uint32_t place, uint32_t page) {
  for (;;) {
    uint32_t child = 2 * place + 1;
    if (child + 1 < cache->count &&
        leaves_before(cache, cache->heap[child + 1], cache->heap[child]))
      child++;
    if (child >= cache->count || !leaves_before(cache, cache->heap[child], page))
      return place;
    set(cache, place, cache->heap[child]);
    place = child;
  }
}

static void settle(struct optimum *cache, uint32_t place, uint32_t page) {
  set(cache, sink(cache, rise(cache, place, page), page), page);
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  struct optimum *cache = state;
  cache->next_use[page] = next_use;
  settle(cache, cache->places[page], page);
}

static void drop(void *state, uint32_t page) {
  struct optimum *cache = state;
  const uint32_t place = cache->places[page];
  const uint32_t last = cache->heap[--cache->count];
  if (last != page)
    settle(cache, place, last);
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct optimum *cache = state;
  uint32_t victim = PAGE_NONE;
  if (cache->count == cache->capacity) {
    victim = cache->heap[0];
    drop(cache, victim);
  }
  cache->next_use[page] = next_use;
  settle(cache, cache->count++, page);
  return victim;
}

const struct cache_policy policy_optimum = {make, hit, admit, drop, free_optimum};
