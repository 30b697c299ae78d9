/* Queues of pages in the order in which they came, for the cache policies: a ring that is written
 * and read from one end to the other, so that memory is fetched ahead, where the links of a list
 * would wait for one another.
 *
 * A page that leaves from the middle stays in the ring as a stale entry, known by not being where
 * the page's state says that the page is. Stale entries go when they come to the front, or all
 * together when the ring is full. A page is in one ring of a cache at most. */
#ifndef TRACEKIT_MODEL_PAGE_RING_H
#define TRACEKIT_MODEL_PAGE_RING_H

#include "model/policy.h"

#define PAGE_RING_AHEAD 16u /* entries: what comes to the front is fetched so much before */

struct page_ring {
  uint32_t *entries; /* pages, stale ones included */
  uint32_t capacity; /* length of `entries` */
  uint32_t first;    /* the oldest entry */
  uint32_t next;     /* where the next page goes */
  uint32_t used;     /* entries from the first on */
  uint32_t count;    /* of them, those that are not stale: the pages */
  uint8_t place;     /* of its pages */
};

/* Makes an empty ring for at most `most` pages, with space for `stale` entries (at least 1) beside
 * them; `place` is above 0 and no other ring's. Returns 0 or -ENOMEM. */
int page_ring_init(struct page_ring *ring, uint8_t place, uint32_t most, uint32_t stale);

/* Frees the entries; a zeroed `ring` is fine. */
void page_ring_free(struct page_ring *ring);

/* Puts the pages together, without the stale entries between them. */
void page_ring_compact(struct page_ring *ring, struct page_state *pages);

/* Returns the slot that is `distance` (at most the capacity) after another. */
static inline uint32_t page_ring_after(const struct page_ring *ring, uint32_t slot,
                                       uint32_t distance) {
  const uint32_t left = ring->capacity - slot;
  return distance < left ? slot + distance : distance - left;
}

/* Returns whether the page of an entry is still there. */
static inline int page_ring_holds(const struct page_ring *ring, const struct page_state *pages,
                                  uint32_t slot) {
  const struct page_state *state = &pages[ring->entries[slot]];
  return state->slot == slot && state->place == ring->place;
}

/* Returns whether a page of the ring is the newest. */
static inline int page_ring_is_newest(const struct page_ring *ring, const struct page_state *pages,
                                      uint32_t page) {
  return page_ring_after(ring, pages[page].slot, 1) == ring->next;
}

/* Makes a page that is in no ring the newest. */
static inline void page_ring_push(struct page_ring *ring, struct page_state *pages, uint32_t page) {
  if (ring->used == ring->capacity)
    page_ring_compact(ring, pages);
  ring->entries[ring->next] = page;
  pages[page].slot = ring->next;
  pages[page].place = ring->place;
  ring->next = page_ring_after(ring, ring->next, 1);
  ring->used++;
  ring->count++;
}

/* Takes a page out of its ring. */
static inline void page_ring_remove(struct page_ring *ring, struct page_state *pages,
                                    uint32_t page) {
  pages[page].place = PAGE_NOWHERE;
  ring->count--;
}

/* Brings closer what is known of the page that is some entries after one with `left` to go. */
static inline void page_ring_look_ahead(const struct page_ring *ring,
                                        const struct page_state *pages, uint32_t slot,
                                        uint32_t left) {
  if (left > PAGE_RING_AHEAD)
    __builtin_prefetch(&pages[ring->entries[page_ring_after(ring, slot, PAGE_RING_AHEAD)]], 1);
}

/* Returns the oldest page of a ring that is not empty; stale entries before it go. */
static inline uint32_t page_ring_oldest(struct page_ring *ring, const struct page_state *pages) {
  for (;;) {
    page_ring_look_ahead(ring, pages, ring->first, ring->used);
    if (page_ring_holds(ring, pages, ring->first))
      return ring->entries[ring->first];
    ring->first = page_ring_after(ring, ring->first, 1);
    ring->used--;
  }
}

/* Takes the oldest page out of a ring that is not empty, and returns it. */
static inline uint32_t page_ring_pop(struct page_ring *ring, struct page_state *pages) {
  const uint32_t page = page_ring_oldest(ring, pages);
  ring->first = page_ring_after(ring, ring->first, 1);
  ring->used--;
  page_ring_remove(ring, pages, page);
  return page;
}

#endif
