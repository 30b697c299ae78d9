#include "model/cache.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/large_pages.h"
#include "model/policy.h"

#define RUNS_AHEAD 16u /* a miss takes about as long as so many runs */

enum page_flag { RESIDENT = 1, DIRTY = 2 };

struct cache {
  struct cache_setup setup;
  const struct cache_policy *policy;
  void *state;              /* of the policy; NULL for a capacity of 0 */
  struct page_state *pages; /* their flags: enum page_flag */
  struct cache_counts counts;
};

int tk_cache_new(const struct cache_setup *setup, struct cache **out) {
  if (setup->policy >= POLICY_COUNT || setup->writes > WRITES_AROUND ||
      setup->page_count >= PAGE_MAX)
    return -EINVAL;
  struct cache *cache = calloc(1, sizeof *cache);
  if (cache == NULL)
    return -ENOMEM;

  /* A cache of no pages keeps nothing: every reference misses. */
  int error = 0;
  cache->setup = *setup;
  cache->policy = policy_of(setup->policy);
  cache->pages = large_pages_zeroed((setup->page_count + 1ul) * sizeof *cache->pages);
  if (cache->pages == NULL)
    error = -ENOMEM;
  else if (setup->capacity > 0)
    error = cache->policy->make(cache->pages, setup->page_count, setup->capacity, &cache->state);
  if (error) {
    tk_cache_free(cache);
    return error;
  }
  *out = cache;
  return 0;
}

static void set_dirty(struct cache *cache, uint32_t page) {
  cache->counts.dirty += !(cache->pages[page].flags & DIRTY);
  cache->pages[page].flags = RESIDENT | DIRTY;
}

static void leave(struct cache *cache, uint32_t page) {
  if (cache->pages[page].flags & DIRTY) {
    cache->counts.dirty--;
    cache->counts.backend_writes++;
  }
  cache->pages[page].flags = 0;
}

static void come(struct cache *cache, uint32_t page, uint32_t next_use) {
  if (cache->state == NULL)
    return;
  const uint32_t victim = cache->policy->admit(cache->state, page, next_use);
  cache->pages[page].flags = RESIDENT;
  cache->counts.fills++;
  if (victim == PAGE_NONE)
    return;
  cache->counts.evictions++;
  leave(cache, victim);
}

static void read_page(struct cache *cache, uint32_t page, uint32_t next_use) {
  if (cache->pages[page].flags & RESIDENT) {
    cache->policy->hit(cache->state, page, next_use);
    return;
  }
  cache->counts.backend_reads++;
  come(cache, page, next_use);
}

static void write_page(struct cache *cache, uint32_t page, uint32_t next_use) {
  const bool is_hit = cache->pages[page].flags & RESIDENT;
  if (cache->setup.writes == WRITES_AROUND) {
    cache->counts.backend_writes++;
    if (is_hit) {
      cache->policy->drop(cache->state, page);
      cache->pages[page].flags = 0;
    }
    return;
  }

  /* Write-back: the page is dirty if it is resident now; all other writes go to the backend. */
  if (cache->setup.writes_allocate && is_hit)
    cache->policy->hit(cache->state, page, next_use);
  else if (cache->setup.writes_allocate)
    come(cache, page, next_use);
  if (cache->setup.writes == WRITES_BACK && cache->pages[page].flags & RESIDENT)
    set_dirty(cache, page);
  else
    cache->counts.backend_writes++;
}

static bool is_possible(const struct cache_setup *setup, const struct page_run *run) {
  return run->role < PAGE_ROLES && (uint64_t)run->first + run->count <= setup->page_count;
}

int tk_cache_add(struct cache *cache, const struct page_run *runs, uint64_t count,
                 const uint32_t *next_uses) {
  if (next_uses == NULL && cache->setup.policy == POLICY_OPTIMUM)
    return -EINVAL;
  for (uint64_t i = 0; i < count; i++) {
    const struct page_run *run = &runs[i];
    const uint32_t row = run->role * 2u + (run->is_write != 0);
    if (!is_possible(&cache->setup, run))
      return -EINVAL;
    if (i + RUNS_AHEAD < count && is_possible(&cache->setup, &runs[i + RUNS_AHEAD]))
      __builtin_prefetch(&cache->pages[runs[i + RUNS_AHEAD].first], 1);
    cache->counts.references[row] += run->count;
    for (uint32_t page = run->first; page < run->first + run->count; page++) {
      const uint32_t next_use = next_uses != NULL ? *next_uses++ : NEXT_USE_NEVER;
      cache->counts.hits[row] += cache->pages[page].flags & RESIDENT;
      if (run->is_write)
        write_page(cache, page, next_use);
      else
        read_page(cache, page, next_use);
    }
  }
  return 0;
}

void tk_cache_read(const struct cache *cache, struct cache_counts *counts) {
  *counts = cache->counts;
}

void tk_cache_free(struct cache *cache) {
  if (cache == NULL)
    return;
  cache->policy->free(cache->state);
  free(cache->pages);
  free(cache);
}

static int count_references(const struct cache_setup *setup, const struct page_run *runs,
                            uint64_t count, uint64_t *total) {
  *total = 0;
  for (uint64_t i = 0; i < count; i++) {
    if (!is_possible(setup, &runs[i]))
      return -EINVAL;
    *total += runs[i].count;
  }
  return *total >= NEXT_USE_NEVER ? -EINVAL : 0;
}

int tk_cache_next_uses(const struct cache_setup *setup, const struct page_run *runs, uint64_t count,
                       uint32_t *next_uses) {
  uint64_t at;
  const int error = count_references(setup, runs, count, &at);
  if (error)
    return error;
  uint32_t *next = large_pages_alloc((setup->page_count + 1ul) * sizeof *next);
  if (next == NULL)
    return -ENOMEM;
  memset(next, 0xff, (setup->page_count + 1ul) * sizeof *next);
  const bool writes_drop = setup->writes == WRITES_AROUND;
  const bool writes_count = !writes_drop && setup->writes_allocate;
  /* From the last reference back, each page's next use is known. */
  for (uint64_t i = count; i-- > 0;) {
    const struct page_run *run = &runs[i];
    if (i >= RUNS_AHEAD)
      __builtin_prefetch(&next[runs[i - RUNS_AHEAD].first], 1);
    for (uint32_t left = run->count; left-- > 0;) {
      const uint32_t page = run->first + left;
      next_uses[--at] = next[page];
      if (!run->is_write || writes_count)
        next[page] = (uint32_t)at;
      else if (writes_drop)
        next[page] = NEXT_USE_NEVER;
    }
  }
  free(next);
  return 0;
}
