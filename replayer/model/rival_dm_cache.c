#include <errno.h>
#include <stdlib.h>

#include "model/rival.h"

/* dm-cache with smq (Documentation/admin-guide/device-mapper/cache.rst, drivers/md/
 * dm-cache-policy-smq.c), simplified. As the kernel: blocks go up a level of 64 when they are used
 * in another second of the trace; a block is promoted when its level is among the highest, half of
 * them while the cache has free blocks, else 1 to 8 of 64 by the hit ratio of the last minute, and
 * two less for writes; a write of a whole block in write-back takes a free block at once. A request
 * that promotes is served by base; the block is copied behind it. Only clean blocks leave; dirty
 * ones are written back while fewer than a quarter of the cache is clean or free. Simplified:
 * levels are those of cache blocks, not of larger hotspot blocks, of all blocks that were used, and
 * the highest ones are found by counting blocks by level where the kernel spreads blocks evenly
 * over levels; the hotspot queue's own quality is taken as good; within the cache the clean block
 * that was used longest ago leaves, where the kernel has levels there, too. The limit of migrations
 * in flight (migration_threshold) is never reached by requests that come one after the other. */
#define LEVELS 64u
#define SECOND_NS INT64_C(1000000000)
#define MINUTE 60
#define WRITE_LEVELS 2u /* so much nearer the top must a block be that is written */

struct use {
  uint32_t second; /* of the last use, 1 for the first second */
  uint32_t level;
};

struct dm_cache {
  struct use *uses;  /* by block */
  uint32_t *pending; /* blocks that a request promotes */
  uint32_t pending_count;
  uint32_t counts[LEVELS]; /* blocks by level */
  uint32_t tracked;        /* of all levels */
  uint32_t read_level;     /* from here on a block is promoted */
  uint32_t write_level;
  uint32_t second;
  uint32_t minute_end;
  uint64_t hits; /* in this minute */
  uint64_t misses;
};

static void release(struct tk_rival *rival) {
  struct dm_cache *cache = rival->state;
  if (cache == NULL)
    return;
  free(cache->uses);
  free(cache->pending);
  free(cache);
}

static int make(struct tk_rival *rival) {
  struct dm_cache *cache = calloc(1, sizeof *cache);
  rival->state = cache;
  if (cache == NULL)
    return -ENOMEM;
  cache->uses = calloc(rival->setup.block_count + 1ul, sizeof *cache->uses);
  cache->pending = calloc(rival->free_count + 1ul, sizeof *cache->pending);
  cache->read_level = LEVELS;
  cache->write_level = LEVELS;
  return cache->uses != NULL && cache->pending != NULL ? 0 : -ENOMEM;
}

/* Returns the lowest level above 0 from which on at most `parts` of 64 of the blocks are. */
static uint32_t level_of(const struct dm_cache *cache, uint32_t parts) {
  const uint64_t most = (uint64_t)cache->tracked * parts;
  uint64_t above = 0;
  uint32_t level = LEVELS;
  while (level > 1 && (above + cache->counts[level - 1]) * LEVELS <= most)
    above += cache->counts[--level];
  return level;
}

/* A second has begun: the levels of promotion follow from what is known now. */
static void tick(struct tk_rival *rival, struct dm_cache *cache) {
  static const uint8_t by_hits[] = {1, 1, 1, 2, 4, 6, 7, 8, 7, 6, 4, 4, 3, 3, 2, 2, 1};
  const uint64_t all = cache->hits + cache->misses;
  const uint64_t sixteenths = all > 0 ? cache->hits * 16 / all : 0;
  const uint32_t parts = rival->free_count > 0 ? LEVELS / 2 : by_hits[sixteenths];
  cache->read_level = level_of(cache, parts);
  cache->write_level = level_of(cache, parts > WRITE_LEVELS ? parts - WRITE_LEVELS : 0);
  if (cache->second < cache->minute_end)
    return;
  cache->minute_end = cache->second + MINUTE;
  cache->hits = 0;
  cache->misses = 0;
}

/* Counts a use; returns the block's level. */
static uint32_t use(struct tk_rival *rival, struct dm_cache *cache, uint32_t block) {
  struct use *last = &cache->uses[block];
  const uint32_t second = (uint32_t)(rival->now_ns / SECOND_NS) + 1;
  if (second != cache->second) {
    cache->second = second;
    tick(rival, cache);
  }
  if (last->second == 0) {
    cache->tracked++;
    cache->counts[0]++;
  } else if (last->second != second && last->level + 1 < LEVELS) {
    cache->counts[last->level++]--;
    cache->counts[last->level]++;
  }
  last->second = second;
  return last->level;
}

static void copy_pending(struct tk_rival *rival, struct dm_cache *cache) {
  for (uint32_t i = 0; i < cache->pending_count; i++) {
    /* Another block of the same request may have taken its place. */
    if (!rival_is_cached(rival, cache->pending[i]))
      continue;
    rival_background(rival, RIVAL_BASE, cache->pending[i], false);
    rival_background(rival, RIVAL_NVM, cache->pending[i], true);
  }
  cache->pending_count = 0;
}

static uint32_t take_miss(struct tk_rival *rival, struct dm_cache *cache,
                          const struct rival_piece *piece, uint32_t level) {
  const bool is_whole = piece->end - piece->first == rival->setup.block_sectors;
  const bool is_over = piece->is_write && is_whole && rival->setup.mode == TK_RIVAL_BACK;
  const bool is_high = level >= (piece->is_write ? cache->write_level : cache->read_level);
  if (!(is_over && rival->free_count > 0) && !(is_high && rival_make_room(rival)))
    return TO_BASE;
  rival_bring(rival, piece->block, is_over);
  if (is_over)
    return TO_NVM;
  cache->pending[cache->pending_count++] = piece->block;
  return TO_BASE;
}

static uint32_t take(struct tk_rival *rival, const struct rival_piece *piece) {
  struct dm_cache *cache = rival->state;
  const bool is_back = rival->setup.mode == TK_RIVAL_BACK;
  const uint32_t level = use(rival, cache, piece->block);
  if (!rival_is_cached(rival, piece->block)) {
    cache->misses++;
    if (cache->pending_count > 0 && rival->free_count == 0)
      copy_pending(rival, cache);
    return take_miss(rival, cache, piece, level);
  }
  cache->hits++;
  rival_use(rival, piece->block, piece->is_write && is_back);
  return !piece->is_write || is_back ? TO_NVM : TO_BASE | TO_NVM;
}

static void settle(struct tk_rival *rival) {
  copy_pending(rival, rival->state);
  const uint64_t most = (uint64_t)rival->setup.capacity * rival->setup.high_percent;
  while (rival->dirty.count * UINT64_C(100) > most)
    rival_clean(rival, page_ring_oldest(&rival->dirty, rival->blocks));
}

const struct rival_policy rival_dm_cache = {.flushed = TO_BASE | TO_NVM,
                                            .commit = COMMIT_FORCED,
                                            .make = make,
                                            .take = take,
                                            .settle = settle,
                                            .free = release};
