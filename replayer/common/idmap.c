#include "common/idmap.h"

#include <errno.h>
#include <stdlib.h>

#include "common/hash.h"

static struct idmap_slot *probe(const struct idmap *map, uint32_t key) {
  uint32_t mask = map->capacity - 1;
  uint32_t place = (uint32_t)hash_mix(key) & mask;
  while (map->slots[place].used && map->slots[place].key != key)
    place = (place + 1) & mask;
  return &map->slots[place];
}

uint32_t *idmap_get(const struct idmap *map, uint32_t key) {
  if (map->count == 0)
    return NULL;
  struct idmap_slot *slot = probe(map, key);
  return slot->used ? &slot->value : NULL;
}

static int grow(struct idmap *map) {
  struct idmap bigger = {.capacity = map->capacity ? map->capacity * 2 : 64, .count = map->count};
  bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
  if (!bigger.slots)
    return -ENOMEM;
  for (uint32_t i = 0; i < map->capacity; i++)
    if (map->slots[i].used)
      *probe(&bigger, map->slots[i].key) = map->slots[i];
  free(map->slots);
  *map = bigger;
  return 0;
}

int idmap_set(struct idmap *map, uint32_t key, uint32_t value) {
  /* At most half full, so that probing stays short. */
  if (map->count * 2 >= map->capacity && grow(map))
    return -ENOMEM;
  struct idmap_slot *slot = probe(map, key);
  if (!slot->used)
    map->count++;
  *slot = (struct idmap_slot){.key = key, .value = value, .used = 1};
  return 0;
}

void idmap_clear(struct idmap *map) {
  free(map->slots);
  *map = (struct idmap){0};
}
