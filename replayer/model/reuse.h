/* Exact LRU stack distances (Mattson et al. 1970): a Fenwick tree over time slots.
 *
 * A page's last access has a time slot, and each slot that is some page's last access has a bit.
 * The distance of an access is the number of set bits after the page's slot: the pages that were
 * touched since. Slots are counted by 64-bit word, and only words that time has left are in the
 * tree, so a touch costs one walk up and one down. When the slots run out, pages are renumbered in
 * their order, which costs a constant a touch. Memory: 4.75 bytes a page. Neighbours that were last
 * touched one after the other have equal distances, and are handled together. */
#ifndef TRACEKIT_MODEL_REUSE_H
#define TRACEKIT_MODEL_REUSE_H

#include <stdint.h>

#define REUSE_COLD UINT32_MAX /* the distance of a first access */

struct reuse {
  uint32_t *slots;  /* of each page's last access; REUSE_COLD before the first */
  uint64_t *bits;   /* one a slot */
  uint32_t *tree;   /* Fenwick tree of set bits by word, for the first `in_tree` words */
  uint32_t pages;   /* length of `slots` */
  uint32_t words;   /* length of `bits` */
  uint32_t next;    /* slot of the next touch */
  uint32_t in_tree; /* words that the tree counts */
  uint32_t live;    /* set bits */
};

/* Makes tables for pages 0 to `pages` - 1, none of them touched; `pages` is at most 2^30.
 * Returns 0 or -ENOMEM. */
int reuse_init(struct reuse *reuse, uint32_t pages);

/* Frees the tables; a zeroed `reuse` is fine. */
void reuse_free(struct reuse *reuse);

/* Touches some of the pages page..page+count-1 (count at least 1): the longest beginning that
 * shares one distance, which *distance is set to (other pages touched since, or REUSE_COLD).
 * Returns how many. */
uint32_t reuse_touch(struct reuse *reuse, uint32_t page, uint32_t count, uint32_t *distance);

/* Returns the distance that a touch of the page would have now, and touches nothing. */
uint32_t reuse_distance(const struct reuse *reuse, uint32_t page);

/* Gives a page that was touched the number of another that was not, which is then untouched. */
void reuse_move(struct reuse *reuse, uint32_t page, uint32_t to);

/* Makes of `to`, which has space for at least as many pages and none of them touched, what `from`
 * is if each touched page `p` had the number moved[p]. `from` is as it was. */
void reuse_move_all(const struct reuse *from, struct reuse *to, const uint32_t *moved);

/* Brings closer what a touch of the page will need: first where its slot stands, and when that has
 * come, what is known of the slot. */
void reuse_prefetch_slot(const struct reuse *reuse, uint32_t page);
void reuse_prefetch_word(const struct reuse *reuse, uint32_t page);

/* Forgets that a page was ever touched. After the last of them reuse_forgot() must follow. */
void reuse_forget(struct reuse *reuse, uint32_t page);

/* Counts anew after pages were forgotten: their number costs nothing, so that it may be large. */
void reuse_forgot(struct reuse *reuse);

/* Returns the bytes of the tables. */
uint64_t reuse_bytes(const struct reuse *reuse);

#endif
