#include <errno.h>
#include <stdlib.h>

#include "model/large_pages.h"
#include "model/page_ring.h"
#include "model/policy.h"

/* Jiang and Zhang, SIGMETRICS 2002, with the names of the paper: LIR pages, whose uses come after
 * few other pages, keep nearly all of the cache; HIR pages share the rest of it, a hundredth and at
 * least one page. Stack S has the order of the last uses, of LIR pages, of HIR pages used since the
 * oldest LIR page was, and of such that have left the cache (nonresident). List Q has the resident
 * HIR pages; its oldest one leaves. The paper does not bound S: here it holds at most twice the
 * pages of the cache, and what left first is forgotten first. A LIR page is one of S, never of Q.
 *
 * A page may be in S and in a list, so it has a state for each: that of the lists is in `others`.
 */
enum place { STACK = PAGE_NOWHERE + 1, QUEUE, NONRESIDENT };
enum status { HIR, LIR }; /* a page's `uses` */

#define HIR_SHARE 100u /* of the cache for HIR pages */
#define STACK_MOST 2ul /* times the cache */

struct lirs {
  struct page_ring stack; /* S, the bottom first */
  struct page_ring queue; /* Q */
  struct page_ring left;  /* nonresident pages of S, in the order in which they left */
  struct page_state *pages;
  struct page_state *others;
  uint32_t capacity; /* pages */
  uint32_t lir_most; /* of these, LIR pages */
  uint32_t lir_count;
};

static void free_lirs(void *state) {
  struct lirs *cache = state;
  if (cache == NULL)
    return;
  page_ring_free(&cache->stack);
  page_ring_free(&cache->queue);
  page_ring_free(&cache->left);
  free(cache->others);
  free(cache);
}

static int make(struct page_state *pages, uint32_t count, uint32_t capacity, void **state) {
  struct lirs *cache = calloc(1, sizeof *cache);
  if (cache == NULL)
    return -ENOMEM;
  const uint32_t hir_most = capacity < HIR_SHARE ? 1 : capacity / HIR_SHARE;
  const uint64_t deep = STACK_MOST * capacity + 1;
  const uint32_t most = deep < count ? (uint32_t)deep : count;
  /* Q has one page more until its oldest has left. */
  const uint32_t queued = hir_most < count ? hir_most + 1 : count;
  cache->pages = pages;
  cache->capacity = capacity;
  cache->lir_most = capacity - hir_most;
  cache->others = large_pages_zeroed((count + 1ul) * sizeof *cache->others);
  int error = cache->others != NULL ? 0 : -ENOMEM;
  if (!error)
    error = page_ring_init(&cache->stack, STACK, most, most + 1);
  if (!error)
    error = page_ring_init(&cache->queue, QUEUE, queued, queued + 1);
  if (!error)
    error = page_ring_init(&cache->left, NONRESIDENT, most, most + 1);
  if (error)
    free_lirs(cache);
  else
    *state = cache;
  return error;
}

static int is_in_stack(const struct lirs *cache, uint32_t page) {
  return cache->pages[page].place == STACK;
}

static void take_from_stack(struct lirs *cache, uint32_t page) {
  page_ring_remove(&cache->stack, cache->pages, page);
}

/* Makes a page the top of S. */
static void put_on_stack(struct lirs *cache, uint32_t page) {
  if (is_in_stack(cache, page))
    take_from_stack(cache, page);
  page_ring_push(&cache->stack, cache->pages, page);
}

/* Takes a page out of Q or of those that have left, if it is there. */
static void take_from_list(struct lirs *cache, uint32_t page) {
  const uint8_t place = cache->others[page].place;
  if (place != PAGE_NOWHERE)
    page_ring_remove(place == QUEUE ? &cache->queue : &cache->left, cache->others, page);
}

static void put_in_list(struct lirs *cache, uint32_t page, enum place place) {
  take_from_list(cache, page);
  page_ring_push(place == QUEUE ? &cache->queue : &cache->left, cache->others, page);
}

/* Takes HIR pages from the bottom of S, so that a LIR page is there. */
static void prune(struct lirs *cache) {
  while (cache->stack.count > 0) {
    const uint32_t page = page_ring_oldest(&cache->stack, cache->pages);
    if (cache->pages[page].uses == LIR)
      return;
    take_from_stack(cache, page);
    if (cache->others[page].place == NONRESIDENT)
      take_from_list(cache, page);
  }
}

/* Makes a page at the top of S a LIR page; one too many becomes a HIR page. */
static void promote(struct lirs *cache, uint32_t page) {
  take_from_list(cache, page);
  cache->pages[page].uses = LIR;
  if (++cache->lir_count <= cache->lir_most)
    return;
  prune(cache);
  const uint32_t bottom = page_ring_pop(&cache->stack, cache->pages);
  cache->pages[bottom].uses = HIR;
  cache->lir_count--;
  put_in_list(cache, bottom, QUEUE);
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  struct lirs *cache = state;
  (void)next_use; /* the past decides */
  const int was_in_stack = is_in_stack(cache, page);
  put_on_stack(cache, page);
  if (cache->pages[page].uses == HIR && was_in_stack)
    promote(cache, page);
  else if (cache->pages[page].uses == HIR)
    put_in_list(cache, page, QUEUE);
  prune(cache);
}

/* The oldest page of Q leaves a full cache; S remembers it if it is there. */
static uint32_t evict(struct lirs *cache) {
  if (cache->lir_count + cache->queue.count < cache->capacity)
    return PAGE_NONE;
  const uint32_t victim = page_ring_pop(&cache->queue, cache->others);
  if (is_in_stack(cache, victim))
    put_in_list(cache, victim, NONRESIDENT);
  return victim;
}

static void limit_stack(struct lirs *cache) {
  while (cache->stack.count > STACK_MOST * cache->capacity && cache->left.count > 0)
    take_from_stack(cache, page_ring_pop(&cache->left, cache->others));
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct lirs *cache = state;
  (void)next_use; /* as above */
  const int was_in_stack = is_in_stack(cache, page);
  const uint32_t victim = evict(cache);
  cache->pages[page].uses = HIR;
  put_on_stack(cache, page);
  /* While LIR pages are too few, each page becomes one. */
  if (was_in_stack || cache->lir_count < cache->lir_most)
    promote(cache, page);
  else
    put_in_list(cache, page, QUEUE);
  prune(cache);
  limit_stack(cache);
  return victim;
}

static void drop(void *state, uint32_t page) {
  struct lirs *cache = state;
  if (is_in_stack(cache, page))
    take_from_stack(cache, page);
  take_from_list(cache, page);
  cache->lir_count -= cache->pages[page].uses == LIR;
  cache->pages[page].uses = HIR;
  prune(cache);
}

const struct cache_policy policy_lirs = {make, hit, admit, drop, free_lirs};
