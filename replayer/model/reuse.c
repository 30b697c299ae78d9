#include "model/reuse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD_SLOTS 64u
#define SLOTS_PER_PAGE 4u /* slots beyond the live ones: renumbering costs a quarter a touch */

static uint32_t words_for(uint32_t pages) {
  return (uint32_t)((uint64_t)pages * SLOTS_PER_PAGE / WORD_SLOTS) + 2;
}

int reuse_init(struct reuse *reuse, uint32_t pages) {
  *reuse = (struct reuse){.pages = pages, .words = words_for(pages)};
  reuse->slots = malloc((pages + 1ul) * sizeof *reuse->slots);
  reuse->bits = calloc(reuse->words, sizeof *reuse->bits);
  reuse->tree = calloc(reuse->words + 1ul, sizeof *reuse->tree);
  if (reuse->slots == NULL || reuse->bits == NULL || reuse->tree == NULL) {
    reuse_free(reuse);
    return -ENOMEM;
  }
  memset(reuse->slots, 0xff, (pages + 1ul) * sizeof *reuse->slots);
  return 0;
}

void reuse_free(struct reuse *reuse) {
  free(reuse->slots);
  free(reuse->bits);
  free(reuse->tree);
  *reuse = (struct reuse){0};
}

static uint32_t popcount(uint64_t word) { return (uint32_t)__builtin_popcountll(word); }

/* Adds to the count of a word that the tree holds. */
static void tree_add(struct reuse *reuse, uint32_t word, uint32_t change) {
  for (uint32_t at = word + 1; at <= reuse->words; at += at & -at)
    reuse->tree[at] += change;
}

/* Returns the set bits of the words before `word`. */
static uint32_t tree_sum(const struct reuse *reuse, uint32_t word) {
  uint32_t sum = 0;
  for (uint32_t at = word; at > 0; at &= at - 1)
    sum += reuse->tree[at];
  return sum;
}

/* Makes the tree of the words that are in it anew: each entry is marked in the one above it. */
static void recount(struct reuse *reuse) {
  memset(reuse->tree, 0, (reuse->words + 1ul) * sizeof *reuse->tree);
  for (uint32_t at = 1; at <= reuse->words; at++) {
    const uint32_t above = at + (at & -at);
    if (at <= reuse->in_tree)
      reuse->tree[at] += popcount(reuse->bits[at - 1]);
    if (above <= reuse->words)
      reuse->tree[above] += reuse->tree[at];
  }
}

/* Counts the words before `word` in the tree: no touch will set a bit in them any more. */
static void close_words(struct reuse *reuse, uint32_t word) {
  for (; reuse->in_tree < word; reuse->in_tree++)
    tree_add(reuse, reuse->in_tree, popcount(reuse->bits[reuse->in_tree]));
}

/* Returns the number of live slots after a slot; the word of any slot is at most the open one, so
 * the words before it are all in the tree. */
static uint32_t live_after(const struct reuse *reuse, uint32_t slot) {
  const uint32_t word = slot / WORD_SLOTS;
  const uint64_t up_to = UINT64_MAX >> (WORD_SLOTS - 1 - slot % WORD_SLOTS);
  return reuse->live - tree_sum(reuse, word) - popcount(reuse->bits[word] & up_to);
}

/* Gives the live slots the numbers from 0 in their order. */
static void renumber(struct reuse *reuse) {
  uint32_t before = 0;
  /* The tree is made anew below; until then it holds each word's first new number. */
  for (uint32_t word = 0; word < reuse->words; word++) {
    reuse->tree[word] = before;
    before += popcount(reuse->bits[word]);
  }
  for (uint32_t page = 0; page < reuse->pages; page++) {
    const uint32_t slot = reuse->slots[page];
    if (slot == REUSE_COLD)
      continue;
    const uint64_t below = (UINT64_C(1) << slot % WORD_SLOTS) - 1;
    reuse->slots[page] =
        reuse->tree[slot / WORD_SLOTS] + popcount(reuse->bits[slot / WORD_SLOTS] & below);
  }
  memset(reuse->bits, 0, reuse->words * sizeof *reuse->bits);
  memset(reuse->bits, 0xff, before / WORD_SLOTS * sizeof *reuse->bits);
  if (before % WORD_SLOTS)
    reuse->bits[before / WORD_SLOTS] = (UINT64_C(1) << before % WORD_SLOTS) - 1;
  reuse->next = before;
  reuse->in_tree = before / WORD_SLOTS;
  recount(reuse);
}

void reuse_move(struct reuse *reuse, uint32_t page, uint32_t to) {
  reuse->slots[to] = reuse->slots[page];
  reuse->slots[page] = REUSE_COLD;
}

void reuse_move_all(const struct reuse *from, struct reuse *to, const uint32_t *moved) {
  for (uint32_t page = 0; page < from->pages; page++)
    if (from->slots[page] != REUSE_COLD)
      to->slots[moved[page]] = from->slots[page];
  memcpy(to->bits, from->bits, from->words * sizeof *to->bits);
  to->live = from->live;
  renumber(to);
}

/* Returns the bits of slots first..end-1 that lie in the word of `first`. */
static uint64_t mask_of(uint32_t first, uint32_t end) {
  const uint32_t room = WORD_SLOTS - first % WORD_SLOTS;
  const uint32_t bits = end - first < room ? end - first : room;
  return (UINT64_MAX >> (WORD_SLOTS - bits)) << first % WORD_SLOTS;
}

static uint32_t next_word(uint32_t slot) { return (slot / WORD_SLOTS + 1) * WORD_SLOTS; }

/* Clears the live slots first..end-1. */
static void clear_slots(struct reuse *reuse, uint32_t first, uint32_t end) {
  for (uint32_t slot = first; slot < end; slot = next_word(slot)) {
    const uint64_t mask = mask_of(slot, end);
    const uint32_t word = slot / WORD_SLOTS;
    reuse->bits[word] &= ~mask;
    if (word < reuse->in_tree)
      tree_add(reuse, word, 0u - popcount(mask));
  }
}

static void set_slots(struct reuse *reuse, uint32_t first, uint32_t end) {
  for (uint32_t slot = first; slot < end; slot = next_word(slot))
    reuse->bits[slot / WORD_SLOTS] |= mask_of(slot, end);
  close_words(reuse, end / WORD_SLOTS);
}

/* Returns how many of the pages were last touched one after the other, or were never touched. */
static uint32_t alike(const uint32_t *slots, uint32_t count) {
  const uint32_t step = slots[0] != REUSE_COLD;
  uint32_t length = 1;
  while (length < count && slots[length] == slots[0] + length * step)
    length++;
  return length;
}

uint32_t reuse_touch(struct reuse *reuse, uint32_t page, uint32_t count, uint32_t *distance) {
  uint32_t *slots = reuse->slots + page;
  if ((uint64_t)reuse->next + count > (uint64_t)reuse->words * WORD_SLOTS - 1)
    renumber(reuse);
  const uint32_t length = alike(slots, count);
  const uint32_t slot = slots[0];

  /* The first page goes on top, which makes up for its successor having one page less above it. */
  *distance = REUSE_COLD;
  if (slot == REUSE_COLD) {
    reuse->live += length;
  } else {
    *distance = live_after(reuse, slot);
    clear_slots(reuse, slot, slot + length);
  }
  for (uint32_t i = 0; i < length; i++)
    slots[i] = reuse->next + i;
  set_slots(reuse, reuse->next, reuse->next + length);
  reuse->next += length;
  return length;
}

uint32_t reuse_distance(const struct reuse *reuse, uint32_t page) {
  const uint32_t slot = reuse->slots[page];
  return slot == REUSE_COLD ? REUSE_COLD : live_after(reuse, slot);
}

void reuse_prefetch_slot(const struct reuse *reuse, uint32_t page) {
  __builtin_prefetch(&reuse->slots[page], 1);
}

void reuse_prefetch_word(const struct reuse *reuse, uint32_t page) {
  const uint32_t slot = reuse->slots[page];
  if (slot == REUSE_COLD)
    return;
  const uint32_t word = slot / WORD_SLOTS;
  __builtin_prefetch(&reuse->bits[word], 1);
  /* The lowest entries of both walks are the ones that lie far from all others. */
  __builtin_prefetch(&reuse->tree[word], 0);
  __builtin_prefetch(&reuse->tree[word & (word - 1)], 0);
}

void reuse_forget(struct reuse *reuse, uint32_t page) {
  const uint32_t slot = reuse->slots[page];
  if (slot == REUSE_COLD)
    return;
  reuse->bits[slot / WORD_SLOTS] &= ~(UINT64_C(1) << slot % WORD_SLOTS);
  reuse->slots[page] = REUSE_COLD;
  reuse->live--;
}

void reuse_forgot(struct reuse *reuse) { recount(reuse); }

uint64_t reuse_bytes(const struct reuse *reuse) {
  return (reuse->pages + 1ul) * sizeof *reuse->slots + reuse->words * sizeof *reuse->bits +
         (reuse->words + 1ul) * sizeof *reuse->tree;
}
