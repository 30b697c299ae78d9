#include "model/page_ring.h"

#include <errno.h>
#include <stdlib.h>

#include "model/large_pages.h"

int page_ring_init(struct page_ring *ring, uint8_t place, uint32_t most, uint32_t stale) {
  *ring = (struct page_ring){.place = place, .capacity = most + stale};
  ring->entries = large_pages_alloc(ring->capacity * sizeof *ring->entries);
  return ring->entries != NULL ? 0 : -ENOMEM;
}

void page_ring_free(struct page_ring *ring) {
  free(ring->entries);
  *ring = (struct page_ring){0};
}

void page_ring_compact(struct page_ring *ring, struct page_state *pages) {
  uint32_t from = ring->first;
  uint32_t to = ring->first;
  for (uint32_t left = ring->used; left > 0; left--) {
    page_ring_look_ahead(ring, pages, from, left);
    if (page_ring_holds(ring, pages, from)) {
      const uint32_t page = ring->entries[from];
      ring->entries[to] = page;
      pages[page].slot = to;
      to = page_ring_after(ring, to, 1);
    }
    from = page_ring_after(ring, from, 1);
  }
  ring->next = to;
  ring->used = ring->count;
}
