#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/hash.h"
#include "model/large_pages.h"
#include "model/page_ring.h"
#include "model/policy.h"

/* Einziger, Friedman and Manes, ACM Transactions on Storage 13(4), 2017: a small LRU window takes
 * new pages, the main cache is a segmented LRU of probation and protected pages. What leaves the
 * window enters a full main cache only if it was used more often than the page that would leave,
 * by a sketch of all uses, hits and misses. The parameters are those of Caffeine, the authors'
 * program: a window of a hundredth, four fifths of the main cache protected, counters to 15, 16 a
 * page of the cache, in blocks of four rows of 32, halved after ten uses a page. Left out
 * are Caffeine's adaptive window and its random admissions, which the paper does not have. */
enum place { WINDOW = PAGE_NOWHERE + 1, PROBATION, PROTECTED, PLACES };

#define WINDOW_SHARE 100u
#define PROTECTED_TENTHS 8u
#define SAMPLE_PAGES 10u /* uses for each page of the cache before the counters are halved */
#define COUNTER_MAX 15u
#define ROWS 4u
#define ROW_COUNTERS 32u /* of four bits: the four rows of a page are one line of memory */
#define ROW_BITS 5u
#define PAGES_PER_LINE 8u
#define HALVED UINT8_C(0x77) /* two counters a byte, each without the bit of the other */
#define STEP UINT64_C(0x9e3779b97f4a7c15) /* of splitmix64, whose finalizer is hash_mix() */
#define STALE_PER_PAGE 2u                 /* a use puts the page at the end anew */

struct line {
  _Alignas(ROWS *ROW_COUNTERS / 2) uint8_t counters[ROWS][ROW_COUNTERS / 2];
};

struct w_tinylfu {
  struct page_ring lists[PLACES];
  struct page_state *pages;
  struct line *lines;
  uint32_t line_mask;      /* their number, a power of two, less 1 */
  uint32_t window_most;    /* pages */
  uint32_t main_most;      /* pages of probation and protected together */
  uint32_t protected_most; /* of these */
  uint64_t uses;           /* counted since they were halved; half of those before */
  uint64_t uses_most;
};

static void free_w_tinylfu(void *state) {
  struct w_tinylfu *cache = state;
  if (cache == NULL)
    return;
  for (int place = WINDOW; place < PLACES; place++)
    page_ring_free(&cache->lists[place]);
  free(cache->lines);
  free(cache);
}

static int make(struct page_state *pages, uint32_t count, uint32_t capacity, void **state) {
  struct w_tinylfu *cache = calloc(1, sizeof *cache);
  if (cache == NULL)
    return -ENOMEM;
  /* Where all pages fit, none is ever chosen by its uses. */
  const uint32_t counted = capacity < count ? capacity : count;
  uint32_t lines = 1;
  while (lines < counted / PAGES_PER_LINE)
    lines *= 2;
  int error = 0;
  cache->pages = pages;
  cache->line_mask = lines - 1;
  cache->window_most = capacity < WINDOW_SHARE ? 1 : capacity / WINDOW_SHARE;
  cache->main_most = capacity - cache->window_most;
  cache->protected_most = (uint32_t)((uint64_t)cache->main_most * PROTECTED_TENTHS / 10);
  cache->uses_most = (uint64_t)SAMPLE_PAGES * capacity;
  cache->lines = large_pages_zeroed(lines * sizeof *cache->lines);
  if (cache->lines == NULL)
    error = -ENOMEM;
  /* A list has one page more until the first of it has moved on. */
  const uint32_t most = capacity < count ? capacity + 1 : count;
  for (uint8_t place = WINDOW; place < PLACES && error == 0; place++)
    error = page_ring_init(&cache->lists[place], place, most, STALE_PER_PAGE * most + 1);
  if (error)
    free_w_tinylfu(cache);
  else
    *state = cache;
  return error;
}

/* Two counters, of which the shift that is returned says where the page's is. */
static uint8_t *counters_of(const struct w_tinylfu *cache, uint64_t hash, uint32_t row,
                            uint32_t *shift) {
  const uint32_t place = hash >> (32 + ROW_BITS * row) & (ROW_COUNTERS - 1);
  *shift = place % 2 * 4;
  return &cache->lines[hash & cache->line_mask].counters[row][place / 2];
}

static uint64_t hash_of(uint32_t page) { return hash_mix((page + 1ul) * STEP); }

static void halve(struct w_tinylfu *cache) {
  uint8_t *counters = &cache->lines[0].counters[0][0];
  const size_t count = (cache->line_mask + 1ul) * sizeof *cache->lines;
  for (size_t i = 0; i < count; i++)
    counters[i] = counters[i] >> 1 & HALVED;
  cache->uses /= 2;
}

static void count_use(struct w_tinylfu *cache, uint32_t page) {
  const uint64_t hash = hash_of(page);
  for (uint32_t row = 0; row < ROWS; row++) {
    uint32_t shift;
    uint8_t *both = counters_of(cache, hash, row, &shift);
    if ((*both >> shift & COUNTER_MAX) < COUNTER_MAX)
      *both = (uint8_t)(*both + (1u << shift));
  }
  if (++cache->uses == cache->uses_most)
    halve(cache);
}

static uint8_t uses_of(const struct w_tinylfu *cache, uint32_t page) {
  const uint64_t hash = hash_of(page);
  uint8_t least = COUNTER_MAX;
  for (uint32_t row = 0; row < ROWS; row++) {
    uint32_t shift;
    const uint8_t both = *counters_of(cache, hash, row, &shift);
    const uint8_t uses = both >> shift & COUNTER_MAX;
    least = uses < least ? uses : least;
  }
  return least;
}

static void put(struct w_tinylfu *cache, uint32_t page, enum place place) {
  page_ring_push(&cache->lists[place], cache->pages, page);
}

static void drop(void *state, uint32_t page) {
  struct w_tinylfu *cache = state;
  page_ring_remove(&cache->lists[cache->pages[page].place], cache->pages, page);
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  struct w_tinylfu *cache = state;
  (void)next_use; /* the past decides */
  count_use(cache, page);
  const enum place place = cache->pages[page].place;
  drop(cache, page);
  put(cache, page, place == WINDOW ? WINDOW : PROTECTED);
  if (cache->lists[PROTECTED].count > cache->protected_most)
    put(cache, page_ring_pop(&cache->lists[PROTECTED], cache->pages), PROBATION);
}

/* Returns which of the window's oldest page and the main cache's next victim leaves. */
static uint32_t choose(struct w_tinylfu *cache, uint32_t candidate) {
  struct page_ring *probation = &cache->lists[PROBATION];
  const bool is_probation = probation->count > 0;
  struct page_ring *from = is_probation ? probation : &cache->lists[PROTECTED];
  if (cache->main_most == 0)
    return candidate;
  const uint32_t victim = page_ring_oldest(from, cache->pages);
  if (uses_of(cache, candidate) <= uses_of(cache, victim))
    return candidate;
  drop(cache, victim);
  put(cache, candidate, PROBATION);
  return victim;
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct w_tinylfu *cache = state;
  (void)next_use; /* as above */
  count_use(cache, page);
  put(cache, page, WINDOW);
  if (cache->lists[WINDOW].count <= cache->window_most)
    return PAGE_NONE;
  const uint32_t candidate = page_ring_pop(&cache->lists[WINDOW], cache->pages);
  if (cache->lists[PROBATION].count + cache->lists[PROTECTED].count == cache->main_most)
    return choose(cache, candidate);
  put(cache, candidate, PROBATION);
  return PAGE_NONE;
}

const struct cache_policy policy_w_tinylfu = {make, hit, admit, drop, free_w_tinylfu};
