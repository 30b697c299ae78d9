#include "model/two_level.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "model/large_pages.h"
#include "model/policy.h"

enum level { FAST, SLOW };

/* Flags of a page: the first on each level, the others on the fast one for both. */
enum {
  HERE = 1,
  DIRTY = 2, /* newer on a level than behind both */
  AHEAD = 4  /* newer on the fast level than on the slow one, which has it, too */
};

struct two_level {
  struct two_level_setup setup;
  const struct cache_policy *policy[LEVELS];
  void *state[LEVELS];              /* of the policies; NULL for a level of capacity 0 */
  struct page_state *pages[LEVELS]; /* of the policies, with our flags */
  struct two_level_counts counts;
};

static int make_level(struct two_level *cache, int level) {
  const uint32_t pages = cache->setup.page_count;
  const uint32_t capacity = cache->setup.capacity[level];
  cache->policy[level] = policy_of(cache->setup.policy[level]);
  cache->pages[level] = large_pages_zeroed((pages + 1ul) * sizeof *cache->pages[level]);
  if (cache->pages[level] == NULL)
    return -ENOMEM;
  if (capacity == 0)
    return 0;
  return cache->policy[level]->make(cache->pages[level], pages, capacity, &cache->state[level]);
}

int tk_two_level_new(const struct two_level_setup *setup, struct two_level **out) {
  if (setup->policy[FAST] >= POLICY_OPTIMUM || setup->policy[SLOW] >= POLICY_OPTIMUM ||
      setup->writes > WRITES_AROUND || setup->page_count >= PAGE_MAX)
    return -EINVAL;
  struct two_level *cache = calloc(1, sizeof *cache);
  if (cache == NULL)
    return -ENOMEM;

  /* The optimum was rejected above: the levels do not get to know next uses. */
  int error = 0;
  cache->setup = *setup;
  for (int level = FAST; level <= SLOW && error == 0; level++)
    error = make_level(cache, level);
  if (error) {
    tk_two_level_free(cache);
    return error;
  }
  *out = cache;
  return 0;
}

static bool is_on(const struct two_level *cache, enum level level, uint32_t page) {
  return cache->pages[level][page].flags & HERE;
}

static void set(uint8_t *flags, int flag) { *flags = (uint8_t)(*flags | flag); }

static void clear(uint8_t *flags, int flag) { *flags = (uint8_t)(*flags & ~flag); }

/* Returns the flags of a page that are for both levels. */
static uint8_t *flags_of(struct two_level *cache, uint32_t page) {
  return &cache->pages[FAST][page].flags;
}

static void drop(struct two_level *cache, enum level level, uint32_t page) {
  if (!is_on(cache, level, page))
    return;
  cache->policy[level]->drop(cache->state[level], page);
  clear(&cache->pages[level][page].flags, HERE);
}

/* Brings a page to a level; returns the page that left it, or PAGE_NONE. */
static uint32_t bring(struct two_level *cache, enum level level, uint32_t page) {
  if (cache->state[level] == NULL)
    return PAGE_NONE;
  const uint32_t victim = cache->policy[level]->admit(cache->state[level], page, NEXT_USE_NEVER);
  set(&cache->pages[level][page].flags, HERE);
  cache->counts.fills[level]++;
  if (victim != PAGE_NONE)
    clear(&cache->pages[level][victim].flags, HERE);
  return victim;
}

static void use(struct two_level *cache, enum level level, uint32_t page) {
  cache->policy[level]->hit(cache->state[level], page, NEXT_USE_NEVER);
}

/* No level has the page any longer. */
static void leave(struct two_level *cache, uint32_t page) {
  uint8_t *flags = flags_of(cache, page);
  if (*flags & DIRTY) {
    cache->counts.dirty--;
    cache->counts.base_writes++;
  }
  clear(flags, DIRTY | AHEAD);
}

static void touch_exclusive(struct two_level *cache, uint32_t page) {
  const enum level top = cache->state[FAST] != NULL ? FAST : SLOW;
  if (is_on(cache, top, page)) {
    use(cache, top, page);
    return;
  }
  if (top == FAST)
    drop(cache, SLOW, page);
  uint32_t victim = bring(cache, top, page);
  if (top == FAST && victim != PAGE_NONE && cache->state[SLOW] != NULL)
    victim = bring(cache, SLOW, victim);
  if (victim != PAGE_NONE)
    leave(cache, victim);
}

/* A page left the fast level. */
static void settle(struct two_level *cache, uint32_t page) {
  if (cache->state[SLOW] == NULL) {
    leave(cache, page);
  } else if (*flags_of(cache, page) & AHEAD) {
    cache->counts.updates[SLOW]++;
    clear(flags_of(cache, page), AHEAD);
  }
}

static void touch_inclusive(struct two_level *cache, uint32_t page) {
  if (is_on(cache, FAST, page)) {
    use(cache, FAST, page);
    return;
  }
  if (is_on(cache, SLOW, page)) {
    use(cache, SLOW, page);
  } else if (cache->state[SLOW] != NULL) {
    const uint32_t victim = bring(cache, SLOW, page);
    if (victim != PAGE_NONE) {
      drop(cache, FAST, victim);
      leave(cache, victim);
    }
  }

  /* What leaves the fast level is still on the slow one, unless there is no slow level. */
  const uint32_t victim = bring(cache, FAST, page);
  if (victim != PAGE_NONE)
    settle(cache, victim);
}

static void write_through(struct two_level *cache, uint32_t page, bool was_fast, bool was_slow) {
  cache->counts.base_writes++;
  /* A page that came to a level with this write was written there by coming. */
  cache->counts.updates[FAST] += was_fast;
  cache->counts.updates[SLOW] += was_slow && is_on(cache, SLOW, page);
}

static void write_back(struct two_level *cache, uint32_t page, bool was_fast, bool was_slow) {
  uint8_t *flags = flags_of(cache, page);
  const bool is_fast = is_on(cache, FAST, page);
  if (!is_fast && !is_on(cache, SLOW, page)) {
    cache->counts.base_writes++;
    return;
  }
  cache->counts.updates[FAST] += is_fast && was_fast;
  cache->counts.updates[SLOW] += !is_fast && was_slow;
  cache->counts.dirty += !(*flags & DIRTY);
  set(flags, DIRTY);
  if (is_fast && is_on(cache, SLOW, page) && (was_fast || was_slow))
    set(flags, AHEAD);
}

static void refer(struct two_level *cache, uint32_t page, bool is_write) {
  const bool was_fast = is_on(cache, FAST, page);
  const bool was_slow = is_on(cache, SLOW, page);
  cache->counts.hits[FAST][is_write] += was_fast;
  cache->counts.hits[SLOW][is_write] += was_slow && !was_fast;
  if (is_write && cache->setup.writes == WRITES_AROUND) {
    cache->counts.base_writes++;
    drop(cache, FAST, page);
    drop(cache, SLOW, page);
    return;
  }

  /* Pages move first; what a write does depends on where its page was before and is now. */
  if (!is_write || cache->setup.writes_allocate) {
    if (cache->setup.is_inclusive)
      touch_inclusive(cache, page);
    else
      touch_exclusive(cache, page);
  }
  if (is_write && cache->setup.writes == WRITES_BACK)
    write_back(cache, page, was_fast, was_slow);
  else if (is_write)
    write_through(cache, page, was_fast, was_slow);
}

int tk_two_level_add(struct two_level *cache, const struct page_run *runs, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    const struct page_run *run = &runs[i];
    if ((uint64_t)run->first + run->count > cache->setup.page_count)
      return -EINVAL;
    cache->counts.references[run->is_write != 0] += run->count;
    for (uint32_t page = run->first; page < run->first + run->count; page++)
      refer(cache, page, run->is_write != 0);
  }
  return 0;
}

void tk_two_level_read(const struct two_level *cache, struct two_level_counts *counts) {
  *counts = cache->counts;
}

void tk_two_level_free(struct two_level *cache) {
  if (cache == NULL)
    return;
  for (int level = FAST; level <= SLOW; level++) {
    if (cache->state[level] != NULL)
      cache->policy[level]->free(cache->state[level]);
    free(cache->pages[level]);
  }
  free(cache);
}
