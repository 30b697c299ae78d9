#include "strace/maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct maps *maps_new(void) {
  struct maps *made = calloc(1, sizeof(*made));
  if (made)
    made->users = 1;
  return made;
}

struct maps *maps_copy(const struct maps *from) {
  struct maps *made = maps_new();
  for (uint32_t i = 0; made && i < from->count; i++)
    if (maps_add(made, from->maps[i])) {
      maps_free(made);
      return NULL;
    }
  return made;
}

int maps_add(struct maps *maps, struct map map) {
  if (maps->count == maps->capacity) {
    uint32_t capacity = maps->capacity ? maps->capacity * 2 : 16;
    struct map *grown = realloc(maps->maps, capacity * sizeof(*grown));
    if (!grown)
      return -ENOMEM;
    maps->maps = grown;
    maps->capacity = capacity;
  }
  maps->maps[maps->count++] = map;
  return 0;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t sooner(uint64_t a, uint64_t b) { return a < b ? a : b; }

static int overlap(const struct map *map, uint64_t start, uint64_t length, struct map *out) {
  uint64_t from = later(map->start, start);
  uint64_t to = sooner(map->start + map->length, start + length);
  if (from >= to)
    return 0;
  *out = *map;
  out->start = from;
  out->length = to - from;
  out->offset_bytes += (int64_t)(from - map->start);
  return 1;
}

int maps_find(const struct maps *maps, uint64_t start, uint64_t length, struct map *out) {
  for (uint32_t i = 0; i < maps->count; i++)
    if (overlap(&maps->maps[i], start, length, out))
      return 1;
  return 0;
}

int maps_cut(struct maps *maps, uint64_t start, uint64_t length, struct map *out) {
  for (uint32_t i = 0; i < maps->count; i++) {
    struct map *map = &maps->maps[i];
    if (!overlap(map, start, length, out))
      continue;
    struct map rest = *map;
    uint64_t cut_end = out->start + out->length;
    rest.length = map->start + map->length - cut_end;
    rest.offset_bytes += (int64_t)(cut_end - map->start);
    rest.start = cut_end;
    map->length = out->start - map->start;
    if (map->length == 0)
      *map = maps->maps[--maps->count];
    return rest.length && maps_add(maps, rest) ? -ENOMEM : 1;
  }
  return 0;
}

void maps_free(struct maps *maps) {
  if (maps)
    free(maps->maps);
  free(maps);
}
