/* Cache policies: which page leaves when another comes. The caller knows which pages are resident
 * and calls `hit` for these and `admit` for others, so that a policy only keeps its order. It also
 * owns the states of the pages, where its own flags are beside what the policy keeps. */
#ifndef TRACEKIT_MODEL_POLICY_H
#define TRACEKIT_MODEL_POLICY_H

#include <stdint.h>

#define PAGE_NONE UINT32_MAX
#define PAGE_NOWHERE 0u /* the place of a page that is in no ring or list */
#define NEXT_USE_NEVER UINT32_MAX

/* What a cache keeps of a page: 8 bytes, so that a reference touches one line of memory. */
struct page_state {
  uint32_t slot; /* of the policy: where in its ring the page is, or when it is used next */
  uint8_t place; /* of the policy: in which ring or list, or PAGE_NOWHERE */
  uint8_t uses;  /* of the policy */
  uint8_t flags; /* of the policy's caller */
  uint8_t unused;
};

struct cache_policy {
  /* Makes an empty cache of `capacity` pages, at least 1. `pages` are `count` states of zeros,
   * which outlive the cache. Returns 0 or -ENOMEM. */
  int (*make)(struct page_state *pages, uint32_t count, uint32_t capacity, void **state);
  /* A resident page is used; `next_use` is the number of its next use, or NEXT_USE_NEVER, and means
   * something to the optimum only. */
  void (*hit)(void *state, uint32_t page, uint32_t next_use);
  /* A page comes in. Returns the page that left for it, or PAGE_NONE. */
  uint32_t (*admit)(void *state, uint32_t page, uint32_t next_use);
  /* The caller removes a resident page. */
  void (*drop)(void *state, uint32_t page);
  /* Frees the cache; NULL is fine. */
  void (*free)(void *state);
};

enum cache_policy_name {
  POLICY_LRU,       /* the page that was not used for the longest time leaves */
  POLICY_FIFO,      /* the page that came first leaves */
  POLICY_CLOCK,     /* as FIFO, but a page used since the hand passed it gets a second round */
  POLICY_S3_FIFO,   /* Yang et al. 2023 */
  POLICY_ARC,       /* Megiddo and Modha 2003 */
  POLICY_2Q,        /* Johnson and Shasha 1994 */
  POLICY_LIRS,      /* Jiang and Zhang 2002 */
  POLICY_SIEVE,     /* Zhang et al. 2024 */
  POLICY_W_TINYLFU, /* Einziger, Friedman and Manes 2017 */
  POLICY_OPTIMUM,   /* Belady 1966: the page that is used last in future leaves */
  POLICY_COUNT
};

extern const struct cache_policy policy_lru;
extern const struct cache_policy policy_fifo;
extern const struct cache_policy policy_clock;
extern const struct cache_policy policy_s3_fifo;
extern const struct cache_policy policy_arc;
extern const struct cache_policy policy_2q;
extern const struct cache_policy policy_lirs;
extern const struct cache_policy policy_sieve;
extern const struct cache_policy policy_w_tinylfu;
extern const struct cache_policy policy_optimum;

/* Returns the functions of a policy, a value below POLICY_COUNT. */
static inline const struct cache_policy *policy_of(uint32_t name) {
  static const struct cache_policy *const policies[POLICY_COUNT] = {
      [POLICY_LRU] = &policy_lru,
      [POLICY_FIFO] = &policy_fifo,
      [POLICY_CLOCK] = &policy_clock,
      [POLICY_S3_FIFO] = &policy_s3_fifo,
      [POLICY_ARC] = &policy_arc,
      [POLICY_2Q] = &policy_2q,
      [POLICY_LIRS] = &policy_lirs,
      [POLICY_SIEVE] = &policy_sieve,
      [POLICY_W_TINYLFU] = &policy_w_tinylfu,
      [POLICY_OPTIMUM] = &policy_optimum,
  };
  return policies[name];
}

#endif
