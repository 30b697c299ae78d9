#include <errno.h>
#include <stdlib.h>

#include "model/rival.h"

/* bcache (Documentation/admin-guide/bcache.rst, drivers/md/bcache): what comes in is appended to an
 * open bucket, so a block that is written again has a new place and leaves a hole. Without a free
 * bucket, that which was read or filled longest ago is emptied. Missed reads come in; writes go to
 * both devices (through, the default), or to NVM alone (back), with the dirty blocks above
 * writeback_percent written to base in the order of their places, on from where that stopped.
 * Requests of a stream of sequential_cutoff and more go by: reads that miss, and writes, which take
 * a clean copy out and change a dirty one. Flushes go to both devices, with the journal's block.
 * Simplified: data are kept by 4 KiB, a bucket without blocks is free at once (garbage collection),
 * dirty blocks of a bucket that is emptied are written to base first, the rate of writing back is
 * not limited, and congestion, the task's average length and cutoff_writeback are not simulated. */
#define NOBODY 0u

struct bcache {
  uint32_t *owners; /* by place on NVM: its block + 1, or NOBODY */
  uint32_t *held;   /* by bucket: blocks in it */
  uint32_t *free_buckets;
  struct page_state *states; /* by bucket */
  struct page_ring full;     /* buckets but the open and the free ones, the one to empty first */
  uint32_t free_count;
  uint32_t open;   /* bucket */
  uint32_t filled; /* places of it */
  uint32_t cursor; /* where writing back goes on */
};

static void release(struct tk_rival *rival) {
  struct bcache *cache = rival->state;
  if (cache == NULL)
    return;
  page_ring_free(&cache->full);
  free(cache->owners);
  free(cache->held);
  free(cache->free_buckets);
  free(cache->states);
  free(cache);
}

static int make(struct tk_rival *rival) {
  struct bcache *cache = calloc(1, sizeof *cache);
  rival->state = cache;
  if (cache == NULL)
    return -ENOMEM;
  const uint32_t each = rival->setup.bucket_blocks;
  /* A bucket without blocks is free: no more are used than one a block and the open one. */
  const uint32_t most = rival->setup.block_count + 2;
  const uint32_t all = rival->setup.capacity / each;
  const uint32_t buckets = all < most ? all : most;
  cache->owners = calloc((size_t)buckets * each, sizeof *cache->owners);
  cache->held = calloc(buckets, sizeof *cache->held);
  cache->free_buckets = malloc(buckets * sizeof *cache->free_buckets);
  cache->states = calloc(buckets, sizeof *cache->states);
  if (cache->owners == NULL || cache->held == NULL || cache->free_buckets == NULL ||
      cache->states == NULL)
    return -ENOMEM;
  /* Bucket 0 is open, the others follow in their order. */
  for (uint32_t i = 1; i < buckets; i++)
    cache->free_buckets[cache->free_count++] = buckets - i;
  return page_ring_init(&cache->full, 1, buckets, 2 * buckets + 1);
}

static uint32_t bucket_of(const struct tk_rival *rival, uint32_t block) {
  return rival->slots[block] / rival->setup.bucket_blocks;
}

/* Takes a block out of its place; a bucket without blocks is free. */
static void take_out(struct tk_rival *rival, uint32_t block) {
  struct bcache *cache = rival->state;
  const uint32_t bucket = bucket_of(rival, block);
  page_ring_remove(rival_is_dirty(rival, block) ? &rival->dirty : &rival->clean, rival->blocks,
                   block);
  rival->is_changed = true;
  cache->owners[rival->slots[block]] = NOBODY;
  if (--cache->held[bucket] > 0 || bucket == cache->open)
    return;
  page_ring_remove(&cache->full, cache->states, bucket);
  cache->free_buckets[cache->free_count++] = bucket;
}

/* Frees the bucket that was used longest ago. */
static void empty_oldest(struct tk_rival *rival) {
  struct bcache *cache = rival->state;
  const uint32_t each = rival->setup.bucket_blocks;
  const uint32_t first = page_ring_oldest(&cache->full, cache->states) * each;
  for (uint32_t i = first; i < first + each; i++)
    if (cache->owners[i] != NOBODY && rival_is_dirty(rival, cache->owners[i] - 1))
      rival_clean(rival, cache->owners[i] - 1);
  for (uint32_t i = first; i < first + each; i++) {
    if (cache->owners[i] == NOBODY)
      continue;
    rival->counts.evictions++;
    take_out(rival, cache->owners[i] - 1);
  }
}

static void append(struct tk_rival *rival, uint32_t block, bool is_dirty) {
  struct bcache *cache = rival->state;
  const uint32_t each = rival->setup.bucket_blocks;
  if (rival_is_cached(rival, block))
    take_out(rival, block);
  else
    rival->counts.fills++;
  if (cache->filled == each) {
    const uint32_t closed = cache->open;
    if (cache->held[closed] > 0)
      page_ring_push(&cache->full, cache->states, closed);
    else
      cache->free_buckets[cache->free_count++] = closed;
    if (cache->free_count == 0)
      empty_oldest(rival);
    cache->open = cache->free_buckets[--cache->free_count];
    cache->filled = 0;
  }
  rival->slots[block] = cache->open * each + cache->filled++;
  cache->owners[rival->slots[block]] = block + 1;
  cache->held[cache->open]++;
  page_ring_push(is_dirty ? &rival->dirty : &rival->clean, rival->blocks, block);
  rival->is_changed = true;
}

static uint32_t take_read(struct tk_rival *rival, const struct rival_piece *piece) {
  struct bcache *cache = rival->state;
  if (rival_is_cached(rival, piece->block)) {
    const uint32_t bucket = bucket_of(rival, piece->block);
    if (bucket != cache->open) {
      page_ring_remove(&cache->full, cache->states, bucket);
      page_ring_push(&cache->full, cache->states, bucket);
    }
    return TO_NVM;
  }
  rival->counts.bypassed += piece->is_going;
  if (piece->is_going)
    return TO_BASE;
  append(rival, piece->block, false);
  rival_background(rival, RIVAL_NVM, piece->block, true);
  return TO_BASE;
}

static uint32_t take(struct tk_rival *rival, const struct rival_piece *piece) {
  if (!piece->is_write)
    return take_read(rival, piece);
  const bool is_back = rival->setup.mode == TK_RIVAL_BACK;
  if (piece->is_going && !rival_is_dirty(rival, piece->block)) {
    if (rival_is_cached(rival, piece->block))
      take_out(rival, piece->block);
    rival->counts.bypassed++;
    return TO_BASE;
  }
  append(rival, piece->block, is_back);
  return is_back ? TO_NVM : TO_BASE | TO_NVM;
}

static void settle(struct tk_rival *rival) {
  struct bcache *cache = rival->state;
  const uint64_t most = (uint64_t)rival->setup.capacity * rival->setup.high_percent;
  while (rival->dirty.count * UINT64_C(100) > most) {
    cache->cursor = cache->cursor + 1 < rival->setup.block_count ? cache->cursor + 1 : 0;
    if (rival_is_dirty(rival, cache->cursor))
      rival_clean(rival, cache->cursor);
  }
}

const struct rival_policy rival_bcache = {.flushed = TO_BASE | TO_NVM,
                                          .commit = COMMIT_FORCED,
                                          .make = make,
                                          .take = take,
                                          .settle = settle,
                                          .free = release};
