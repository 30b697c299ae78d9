#include "model/leaf_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE_LOG2 10
/* 2^64 divided by the golden ratio: consecutive keys fall far apart (Knuth, vol. 3, 6.4). */
#define FIBONACCI UINT64_C(0x9e3779b97f4a7c15)

static uint64_t table_length(const struct leaf_map *map) { return UINT64_C(1) << map->size_log2; }

static uint64_t home_of(const struct leaf_map *map, uint64_t key) {
  /* The fold keeps the high bits of the key in play, which the multiplication alone would lose. */
  return ((key ^ (key >> 32)) * FIBONACCI) >> (64 - map->size_log2);
}

static struct leaf_map_entry *probe(const struct leaf_map *map, uint64_t key) {
  uint64_t mask = table_length(map) - 1;
  uint64_t at = home_of(map, key);

  while (map->entries[at].is_used && map->entries[at].key != key)
    at = (at + 1) & mask;
  return &map->entries[at];
}

static int is_nearly_full(const struct leaf_map *map) {
  return (map->count + 1) * 4 > table_length(map) * 3;
}

int leaf_map_init(struct leaf_map *map) {
  map->count = 0;
  map->size_log2 = FIRST_SIZE_LOG2;
  map->entries = calloc(table_length(map), sizeof(*map->entries));
  return map->entries ? 0 : -ENOMEM;
}

void leaf_map_free(struct leaf_map *map) {
  free(map->entries);
  map->entries = NULL;
  map->count = 0;
}

void leaf_map_clear(struct leaf_map *map) {
  memset(map->entries, 0, leaf_map_bytes(map));
  map->count = 0;
}

struct leaf_map_entry *leaf_map_find(const struct leaf_map *map, uint64_t key) {
  struct leaf_map_entry *entry = probe(map, key);

  return entry->is_used ? entry : NULL;
}

static int grow(struct leaf_map *map) {
  struct leaf_map bigger = {.count = map->count, .size_log2 = map->size_log2 + 1};

  bigger.entries = calloc(table_length(&bigger), sizeof(*bigger.entries));
  if (!bigger.entries)
    return -ENOMEM;
  for (uint64_t i = 0; i < table_length(map); i++)
    if (map->entries[i].is_used)
      *probe(&bigger, map->entries[i].key) = map->entries[i];
  free(map->entries);
  *map = bigger;
  return 0;
}

struct leaf_map_entry *leaf_map_add(struct leaf_map *map, uint64_t key) {
  struct leaf_map_entry *entry;

  if (is_nearly_full(map) && grow(map)) {
    errno = ENOMEM;
    return NULL;
  }
  entry = probe(map, key);
  *entry = (struct leaf_map_entry){.key = key, .value = 0, .is_used = 1};
  map->count++;
  return entry;
}

size_t leaf_map_bytes(const struct leaf_map *map) {
  return (size_t)table_length(map) * sizeof(*map->entries);
}

size_t leaf_map_growth_bytes(const struct leaf_map *map) {
  return is_nearly_full(map) ? 2 * leaf_map_bytes(map) : 0;
}

void leaf_map_prefetch(const struct leaf_map *map, uint64_t key) {
  __builtin_prefetch(&map->entries[home_of(map, key)]);
}

static int by_key(const void *left, const void *right) {
  uint64_t a = ((const struct leaf_map_entry *)left)->key;
  uint64_t b = ((const struct leaf_map_entry *)right)->key;

  return (a > b) - (a < b);
}

void leaf_map_sort(struct leaf_map *map) {
  uint64_t used = 0;

  for (uint64_t i = 0; i < table_length(map); i++)
    if (map->entries[i].is_used)
      map->entries[used++] = map->entries[i];
  qsort(map->entries, used, sizeof(*map->entries), by_key);
}
