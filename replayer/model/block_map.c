#include "model/block_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "model/large_pages.h"

#define DIRECTORY_MAX (1u << 20)

/* Neighbouring keys. */
struct run {
  int64_t start;  /* the first of them */
  uint32_t index; /* of it among the keys */
};

struct block_map {
  struct run *runs;    /* ascending; one more entry holds the number of keys */
  uint32_t run_count;  /* number of runs */
  uint32_t *directory; /* first run that starts at or after the slot's lowest key */
  uint32_t slots;      /* number of slots; one more directory entry holds `run_count` */
  int shift;           /* a slot spans 2^shift keys */
  int64_t lowest;      /* first key of all */
};

static int count_runs(const int64_t *keys, uint32_t count, uint32_t *runs) {
  *runs = count > 0;
  for (uint32_t i = 1; i < count; i++) {
    if (keys[i] <= keys[i - 1])
      return -EINVAL;
    *runs += keys[i] - keys[i - 1] != 1;
  }
  return 0;
}

static void fill_runs(struct block_map *map, const int64_t *keys, uint32_t count) {
  uint32_t run = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (i > 0 && keys[i] - keys[i - 1] == 1)
      continue;
    map->runs[run++] = (struct run){keys[i], i};
  }
  map->runs[run].index = count;
}

static void fill_directory(struct block_map *map) {
  uint32_t run = 0;
  for (uint32_t slot = 0; slot < map->slots; slot++) {
    const int64_t from = map->lowest + ((int64_t)slot << map->shift);
    while (run < map->run_count && map->runs[run].start < from)
      run++;
    map->directory[slot] = run;
  }
  map->directory[map->slots] = map->run_count;
}

/* About two runs a slot: the directory stays small and the search within a slot short. */
static void choose_slots(struct block_map *map) {
  const uint32_t runs = map->run_count;
  const int64_t span = runs > 0 ? map->runs[runs - 1].start - map->lowest : 0;
  const int64_t wanted = runs / 2 < DIRECTORY_MAX ? runs / 2 + 1 : DIRECTORY_MAX;
  map->shift = 0;
  while ((span >> map->shift) >= wanted)
    map->shift++;
  map->slots = (uint32_t)(span >> map->shift) + 1;
}

int block_map_new(const int64_t *keys, uint32_t count, struct block_map **out) {
  uint32_t runs;
  int error = count == BLOCK_MAP_NONE ? -EINVAL : count_runs(keys, count, &runs);
  if (error)
    return error;

  struct block_map *map = calloc(1, sizeof *map);
  if (map == NULL)
    return -ENOMEM;

  /* Runs of neighbouring keys are kept, not keys, and a directory finds the run. */
  error = -ENOMEM;
  map->run_count = runs;
  map->lowest = count > 0 ? keys[0] : 0;
  map->runs = large_pages_alloc((runs + 1ul) * sizeof *map->runs);
  if (map->runs == NULL)
    goto free_map;
  fill_runs(map, keys, count);
  choose_slots(map);
  map->directory = large_pages_alloc((map->slots + 1ul) * sizeof *map->directory);
  if (map->directory == NULL)
    goto free_map;
  fill_directory(map);
  *out = map;
  return 0;

free_map:
  block_map_free(map);
  return error;
}

uint32_t block_map_find(const struct block_map *map, int64_t key, uint32_t *following) {
  *following = 0;
  if (map->run_count == 0 || key < map->lowest)
    return BLOCK_MAP_NONE;
  const int64_t slot = (key - map->lowest) >> map->shift;
  const bool is_past = slot >= map->slots;

  /* The last run that starts at or before the key is in (low, high]. */
  uint32_t low = is_past ? map->run_count - 1 : map->directory[slot];
  uint32_t high = is_past ? map->run_count : map->directory[slot + 1];
  low -= !is_past && low > 0;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (map->runs[middle].start <= key)
      low = middle;
    else
      high = middle;
  }

  const int64_t within = key - map->runs[low].start;
  const int64_t run_keys = (int64_t)map->runs[low + 1].index - map->runs[low].index;
  if (within < 0 || within >= run_keys)
    return BLOCK_MAP_NONE;
  *following = (uint32_t)(run_keys - within);
  return map->runs[low].index + (uint32_t)within;
}

static bool has_slot(const struct block_map *map, int64_t key) {
  return map->run_count > 0 && key >= map->lowest && (key - map->lowest) >> map->shift < map->slots;
}

void block_map_prefetch_slot(const struct block_map *map, int64_t key) {
  if (has_slot(map, key))
    __builtin_prefetch(&map->directory[(key - map->lowest) >> map->shift]);
}

void block_map_prefetch_run(const struct block_map *map, int64_t key) {
  if (has_slot(map, key))
    __builtin_prefetch(&map->runs[map->directory[(key - map->lowest) >> map->shift]]);
}

void block_map_free(struct block_map *map) {
  if (map == NULL)
    return;
  free(map->runs);
  free(map->directory);
  free(map);
}
