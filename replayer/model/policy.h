/* Cache policies: which page leaves when another comes. The caller knows which pages are resident
 * and calls `hit` for these and `admit` for others, so that a policy only keeps its order. It also
 * owns the states of the pages, where its own flags are beside what the policy keeps. */
#ifndef TRACEKIT_MODEL_POLICY_H
#define TRACEKIT_MODEL_POLICY_H

#include <stdint.h>

#include "model/page_state.h"

#define NEXT_USE_NEVER UINT32_MAX

struct cache_policy {
  /* Makes an empty cache of `capacity` pages, at least 1. `pages` are `count` states of zeros,
   * which outlive the cache. Returns 0 or -ENOMEM. */
  int (*make)(struct page_state *pages, uint32_t count, uint32_t capacity, void **state);
  /* A resident page is used; `next_use` is the number of its next use, or NEXT_USE_NEVER, and means
   * something to the optimum only. */
  void (*hit)(void *state, uint32_t page, uint32_t next_use);
  /* A page comes in. Returns the page that left for it, or PAGE_NONE. */
  uint32_t (*admit)(void *state, uint32_t page, uint32_t next_use);
  /* A resident page leaves for reasons of its own. */
  void (*drop)(void *state, uint32_t page);
  /* Frees the cache; NULL is fine. */
  void (*free)(void *state);
};

enum cache_policy_name {
  POLICY_LRU,     /* the page that was not used for the longest time leaves */
  POLICY_FIFO,    /* the page that came first leaves */
  POLICY_CLOCK,   /* as FIFO, but a page used since the hand passed it gets a second round */
  POLICY_S3_FIFO, /* Yang et al. 2023 */
  POLICY_ARC,     /* Megiddo and Modha 2003 */
  POLICY_OPTIMUM, /* Belady 1966: the page that is used last in future leaves */
  POLICY_COUNT
};

/* Returns the functions of a policy, a value below POLICY_COUNT. */
const struct cache_policy *policy_of(uint32_t name);

extern const struct cache_policy policy_lru;
extern const struct cache_policy policy_fifo;
extern const struct cache_policy policy_clock;
extern const struct cache_policy policy_s3_fifo;
extern const struct cache_policy policy_arc;
extern const struct cache_policy policy_optimum;

#endif
