#include "play/block_map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PLACES_MAX (UINT64_C(1) << 31)
#define WORD_BITS 64U

struct block_map {
  uint64_t place_bytes; /* of a bit */
  uint64_t places;
  uint32_t block_bytes;
  int64_t taken;  /* blocks, beyond those of the beginning; below 0 when more were freed */
  int64_t peak;   /* most of them at once */
  uint64_t *bits; /* memory that is not touched is not there */
};

static uint64_t map_bytes(const struct block_map *map) {
  return (map->places / WORD_BITS + 1) * sizeof *map->bits;
}

struct block_map *block_map_new(uint64_t size_bytes, uint32_t block_bytes) {
  struct block_map *map = calloc(1, sizeof *map);
  if (map == NULL)
    return NULL;
  map->block_bytes = block_bytes;
  map->place_bytes = block_bytes;
  while (size_bytes / map->place_bytes >= PLACES_MAX)
    map->place_bytes *= 2;
  map->places = size_bytes / map->place_bytes + 1;
  map->bits = mmap(NULL, map_bytes(map), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map->bits != MAP_FAILED)
    return map;
  free(map);
  return NULL;
}

/* Sets or clears the places [first, end). Returns how many changed. */
static uint64_t change(struct block_map *map, uint64_t first, uint64_t end, bool is_set) {
  uint64_t changed = 0;
  end = end < map->places ? end : map->places;
  while (first < end) {
    uint64_t bit = first % WORD_BITS;
    uint64_t count = end - first < WORD_BITS - bit ? end - first : WORD_BITS - bit;
    uint64_t mask = (count == WORD_BITS ? UINT64_MAX : (UINT64_C(1) << count) - 1) << bit;
    uint64_t *word = &map->bits[first / WORD_BITS];
    uint64_t flips = (is_set ? ~*word : *word) & mask;
    if (flips != 0) /* a page that is only read takes no memory */
      *word ^= flips;
    changed += (uint64_t)__builtin_popcountll(flips);
    first += count;
  }
  return changed;
}

void block_map_begin(struct block_map *map, uint64_t offset_bytes, uint64_t length_bytes) {
  uint64_t end = offset_bytes + length_bytes + map->place_bytes - 1;
  (void)change(map, offset_bytes / map->place_bytes, end / map->place_bytes, true);
}

void block_map_take(struct block_map *map, uint64_t offset_bytes, uint64_t length_bytes) {
  uint64_t end = offset_bytes + length_bytes + map->place_bytes - 1;
  map->taken += (int64_t)change(map, offset_bytes / map->place_bytes, end / map->place_bytes, true);
  map->peak = map->taken > map->peak ? map->taken : map->peak;
}

void block_map_release(struct block_map *map, uint64_t offset_bytes, uint64_t length_bytes) {
  uint64_t first = (offset_bytes + map->place_bytes - 1) / map->place_bytes;
  uint64_t end = (offset_bytes + length_bytes) / map->place_bytes;
  map->taken -= (int64_t)change(map, first, end, false);
}

uint64_t block_map_peak_bytes(const struct block_map *map) {
  return (uint64_t)map->peak * map->block_bytes;
}

void block_map_free(struct block_map *map) {
  if (map == NULL)
    return;
  (void)munmap(map->bits, map_bytes(map)); /* fails only for a range that was never mapped */
  free(map);
}
