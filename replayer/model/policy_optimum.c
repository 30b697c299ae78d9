#include <errno.h>
#include <stdlib.h>

#include "common/heap.h"
#include "model/large_pages.h"
#include "model/policy.h"

#define OUT 0u /* of a page that is not in the cache; a next use is never the first of all */
#define CHILDREN 4u
#define KEYS_AHEAD 16u
#define SPARE 64u /* keys that even a cache of one page may hold beside the live ones */

/* Belady, IBM Systems Journal 5(2), 1966. Of pages that are equally far away the one with the
 * largest number leaves, which fixes the result. A heap has the page to leave at its top.
 *
 * A key is a next use above a page, so that comparing keys needs nothing else. A use adds the
 * page's new key and leaves the old one where it is: that use has passed, so the key sinks below
 * those of all pages in the cache. What is still met at the top, after a drop, is known by not
 * being the page's next use. When the keys fill the heap, the live ones are put together anew. */
struct optimum {
  uint32_t capacity;     /* pages */
  uint32_t count;        /* pages in the cache */
  uint64_t keys;         /* in the heap */
  uint64_t key_capacity; /* at least twice the pages */
  uint64_t *heap;
  struct page_state *pages; /* their slots are their next uses, or OUT */
};

static void free_optimum(void *state) {
  struct optimum *cache = state;
  if (cache == NULL)
    return;
  free(cache->heap);
  free(cache);
}

static int make(struct page_state *pages, uint32_t count, uint32_t capacity, void **state) {
  struct optimum *cache = calloc(1, sizeof *cache);
  if (cache == NULL)
    return -ENOMEM;
  cache->pages = pages;
  cache->capacity = capacity;
  cache->key_capacity = 2ul * (capacity < count ? capacity : count) + SPARE;
  cache->heap = large_pages_alloc(cache->key_capacity * sizeof *cache->heap);
  if (cache->heap == NULL) {
    free_optimum(cache);
    return -ENOMEM;
  }
  *state = cache;
  return 0;
}

static bool is_larger(const uint64_t *left, const uint64_t *right) { return *left > *right; }

HEAP_DEFINE(key_heap, uint64_t, CHILDREN, is_larger)

static uint32_t page_of(uint64_t key) { return (uint32_t)key; }

static int is_live(const struct optimum *cache, uint64_t key) {
  return cache->pages[page_of(key)].slot == key >> 32;
}

static void prefetch(const struct optimum *cache, uint64_t place) {
  if (place < cache->keys)
    __builtin_prefetch(&cache->pages[page_of(cache->heap[place])], 1);
}

static void pop(struct optimum *cache) {
  key_heap_pop(cache->heap, cache->keys--);
  /* One of these is the next to leave. */
  for (uint64_t place = 0; place <= CHILDREN; place++)
    prefetch(cache, place);
}

/* Keeps one key of each page in the cache. */
static void rebuild(struct optimum *cache) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < cache->keys; i++) {
    const uint64_t key = cache->heap[i];
    prefetch(cache, i + KEYS_AHEAD);
    if (!is_live(cache, key))
      continue;
    cache->heap[kept++] = key;
    cache->pages[page_of(key)].slot = OUT; /* a second key of a page that came back is not kept */
  }
  cache->keys = kept;
  for (uint64_t i = 0; i < kept; i++)
    cache->pages[page_of(cache->heap[i])].slot = (uint32_t)(cache->heap[i] >> 32);
  key_heap_order(cache->heap, kept);
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  struct optimum *cache = state;
  cache->pages[page].slot = OUT; /* its key of before need not be kept */
  if (cache->keys == cache->key_capacity)
    rebuild(cache);
  cache->pages[page].slot = next_use == OUT ? OUT + 1 : next_use;
  key_heap_push(cache->heap, cache->keys++, (uint64_t)cache->pages[page].slot << 32 | page);
}

static void drop(void *state, uint32_t page) {
  struct optimum *cache = state;
  cache->pages[page].slot = OUT;
  cache->count--;
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct optimum *cache = state;
  uint32_t victim = PAGE_NONE;
  if (cache->count == cache->capacity) {
    while (!is_live(cache, cache->heap[0]))
      pop(cache);
    victim = page_of(cache->heap[0]);
    pop(cache);
    drop(cache, victim);
  }
  cache->count++;
  hit(cache, page, next_use);
  return victim;
}

const struct cache_policy policy_optimum = {make, hit, admit, drop, free_optimum};
