#include <errno.h>
#include <stdlib.h>

#include "model/large_pages.h"
#include "model/policy.h"

/* Zhang, Yang, Yue, Vigfusson and Rashmi, NSDI 2024: a queue in the order of arrival, in which no
 * page moves. A hand goes from the oldest page to the newest and round; a page that was used since
 * the hand passed it stays where it is and loses that use, the first other one leaves. New pages
 * come in behind the hand's back, so they are looked at only after a whole round.
 *
 * The queue is an array that is filled from one end, and what the hand looks at is in two bits of
 * each entry beside it: so the hand passes 64 entries at once, and touches the state of no page but
 * the one that leaves. Pages that left are entries without the bit, until the array is full. */
#define ENTRIES_PER_PAGE 3u /* pages are put together once for two thirds of the array */
#define WORD_BITS 64u

struct sieve {
  struct page_state *pages; /* their slot: the entry */
  uint32_t *entries;        /* pages, in the order in which they came */
  uint64_t *held;           /* by entry, a bit: its page is still there */
  uint64_t *used;           /* the same: and was used since the hand passed */
  uint32_t length;          /* of `entries`; whole words */
  uint32_t next;            /* where the next page goes */
  uint32_t count;           /* pages */
  uint32_t capacity;        /* pages */
  uint32_t hand; /* the entry that it looks at next; a page is there or later, or it is 0 */
};

static void free_sieve(void *state) {
  struct sieve *sieve = state;
  if (sieve == NULL)
    return;
  free(sieve->entries);
  free(sieve->held);
  free(sieve->used);
  free(sieve);
}

static int make(struct page_state *pages, uint32_t count, uint32_t capacity, void **state) {
  struct sieve *sieve = calloc(1, sizeof *sieve);
  if (sieve == NULL)
    return -ENOMEM;
  const uint32_t most = capacity < count ? capacity : count;
  const uint32_t words = most / WORD_BITS * ENTRIES_PER_PAGE + ENTRIES_PER_PAGE;
  sieve->pages = pages;
  sieve->capacity = capacity;
  sieve->length = words * WORD_BITS;
  sieve->entries = large_pages_alloc(sieve->length * sizeof *sieve->entries);
  sieve->held = calloc(words, sizeof *sieve->held);
  sieve->used = calloc(words, sizeof *sieve->used);
  if (sieve->entries == NULL || sieve->held == NULL || sieve->used == NULL) {
    free_sieve(sieve);
    return -ENOMEM;
  }
  *state = sieve;
  return 0;
}

static uint64_t bit_of(uint32_t entry) { return UINT64_C(1) << entry % WORD_BITS; }

static uint64_t from_bit(uint32_t entry) { return UINT64_MAX << entry % WORD_BITS; }

static void hit(void *state, uint32_t page, uint32_t next_use) {
  const struct sieve *sieve = state;
  const uint32_t entry = sieve->pages[page].slot;
  (void)next_use; /* the past decides */
  sieve->used[entry / WORD_BITS] |= bit_of(entry);
}

/* Returns the first entry of a page from one below the next on, or 0 without any. */
static uint32_t first_held(const struct sieve *sieve, uint32_t from) {
  uint64_t held = sieve->held[from / WORD_BITS] & from_bit(from);
  for (uint32_t word = from / WORD_BITS;; held = sieve->held[word]) {
    if (held != 0)
      return word * WORD_BITS + (uint32_t)__builtin_ctzll(held);
    if (++word * WORD_BITS >= sieve->next)
      return 0;
  }
}

static void take_out(struct sieve *sieve, uint32_t entry) {
  sieve->held[entry / WORD_BITS] &= ~bit_of(entry);
  sieve->used[entry / WORD_BITS] &= ~bit_of(entry);
  sieve->count--;
}

static void drop(void *state, uint32_t page) {
  struct sieve *sieve = state;
  const uint32_t entry = sieve->pages[page].slot;
  take_out(sieve, entry);
  if (sieve->hand <= entry)
    sieve->hand = first_held(sieve, sieve->hand);
}

/* Brings closer what is known of the pages of a word that may leave soon. */
static void look_ahead(const struct sieve *sieve, uint32_t word) {
  if (word * WORD_BITS >= sieve->next)
    return;
  for (uint64_t rest = sieve->held[word] & ~sieve->used[word]; rest != 0; rest &= rest - 1)
    __builtin_prefetch(
        &sieve->pages[sieve->entries[word * WORD_BITS + (uint32_t)__builtin_ctzll(rest)]], 1);
}

/* Takes out the page that leaves, of at least one, and returns it. */
static uint32_t evict(struct sieve *sieve) {
  uint32_t word = sieve->hand / WORD_BITS;
  uint64_t ahead = from_bit(sieve->hand);
  for (;;) {
    const uint64_t leaving = sieve->held[word] & ~sieve->used[word] & ahead;
    if (leaving != 0) {
      /* Those before it lose their use. */
      const uint32_t entry = word * WORD_BITS + (uint32_t)__builtin_ctzll(leaving);
      sieve->used[word] &= ~(ahead & ~from_bit(entry));
      take_out(sieve, entry);
      sieve->hand = entry + 1 == sieve->next ? 0 : entry + 1;
      return sieve->entries[entry];
    }
    sieve->used[word] &= ~ahead;
    ahead = UINT64_MAX;
    word = (word + 1) * WORD_BITS < sieve->next ? word + 1 : 0;
    look_ahead(sieve, word + 1);
  }
}

/* Puts the pages together at the beginning. */
static void compact(struct sieve *sieve) {
  uint32_t to = 0;
  uint32_t before_hand = 0;
  for (uint32_t word = 0; word * WORD_BITS < sieve->next; word++) {
    uint64_t held = sieve->held[word];
    const uint64_t used = sieve->used[word];
    sieve->held[word] = 0;
    sieve->used[word] = 0;
    for (; held != 0; held &= held - 1) {
      const uint32_t entry = word * WORD_BITS + (uint32_t)__builtin_ctzll(held);
      const uint32_t page = sieve->entries[entry];
      before_hand += entry < sieve->hand;
      sieve->entries[to] = page;
      sieve->pages[page].slot = to;
      sieve->held[to / WORD_BITS] |= bit_of(to);
      if (used & bit_of(entry))
        sieve->used[to / WORD_BITS] |= bit_of(to);
      to++;
    }
  }
  sieve->next = to;
  sieve->hand = before_hand;
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct sieve *sieve = state;
  (void)next_use; /* as above */
  const uint32_t victim = sieve->count == sieve->capacity ? evict(sieve) : PAGE_NONE;
  if (sieve->next == sieve->length)
    compact(sieve);
  const uint32_t entry = sieve->next++;
  sieve->entries[entry] = page;
  sieve->held[entry / WORD_BITS] |= bit_of(entry);
  sieve->pages[page].slot = entry;
  sieve->count++;
  return victim;
}

const struct cache_policy policy_sieve = {make, hit, admit, drop, free_sieve};
