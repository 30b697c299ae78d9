#include "model/rival.h"

void rival_bring(struct tk_rival *rival, uint32_t block, bool is_dirty) {
  rival->slots[block] = rival->free_slots[--rival->free_count];
  page_ring_push(is_dirty ? &rival->dirty : &rival->clean, rival->blocks, block);
  rival->counts.fills++;
  rival->is_dirtied = rival->is_dirtied || is_dirty;
  rival->is_changed = true;
}

static struct page_ring *list_of(struct tk_rival *rival, uint32_t block) {
  return rival_is_dirty(rival, block) ? &rival->dirty : &rival->clean;
}

void rival_use(struct tk_rival *rival, uint32_t block, bool is_dirty) {
  struct page_ring *from = list_of(rival, block);
  struct page_ring *to = is_dirty ? &rival->dirty : from;
  rival->is_dirtied = rival->is_dirtied || to != from;
  page_ring_remove(from, rival->blocks, block);
  page_ring_push(to, rival->blocks, block);
}

void rival_drop(struct tk_rival *rival, uint32_t block) {
  page_ring_remove(list_of(rival, block), rival->blocks, block);
  rival->free_slots[rival->free_count++] = rival->slots[block];
  rival->is_changed = true;
}

void rival_clean(struct tk_rival *rival, uint32_t block) {
  rival_background(rival, RIVAL_NVM, block, false);
  rival_background(rival, RIVAL_BASE, block, true);
  page_ring_remove(&rival->dirty, rival->blocks, block);
  page_ring_push(&rival->clean, rival->blocks, block);
  rival->counts.writebacks++;
  rival->is_changed = true;
}

bool rival_make_room(struct tk_rival *rival) {
  if (rival->free_count > 0)
    return true;
  if (rival->clean.count == 0)
    return false;
  rival_drop(rival, page_ring_oldest(&rival->clean, rival->blocks));
  rival->counts.evictions++;
  return true;
}
