#include "strace/handles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int grow(struct handles *handles) {
  int32_t capacity = handles->capacity ? handles->capacity * 2 : 64;
  struct handle *grown = realloc(handles->handles, (size_t)capacity * sizeof(*grown));
  if (!grown)
    return -ENOMEM;
  handles->handles = grown;
  int32_t *unused = realloc(handles->free, (size_t)capacity * sizeof(*unused));
  if (!unused)
    return -ENOMEM;
  handles->free = unused;
  handles->capacity = capacity;
  return 0;
}

int32_t handles_new(struct handles *handles, const struct handle *like) {
  if (handles->free_count == 0 && handles->count == handles->capacity && grow(handles))
    return -ENOMEM;
  int32_t place = handles->free_count ? handles->free[--handles->free_count] : handles->count++;
  handles->handles[place] = *like;
  handles->handles[place].id = handles->next_id++;
  handles->handles[place].shares = 0;
  return place;
}

bool handles_drop(struct handles *handles, int32_t handle) {
  if (--handles->handles[handle].shares)
    return false;
  handles->free[handles->free_count++] = handle;
  return true;
}

int32_t descriptors_get(const struct descriptors *descriptors, int64_t fd) {
  if (fd < 0 || fd >= descriptors->capacity)
    return -1;
  return descriptors->slots[fd].handle - 1;
}

int descriptors_set(struct descriptors *descriptors, struct handles *handles, int64_t fd,
                    struct slot slot) {
  if (fd < 0 || fd >= MOST_DESCRIPTORS)
    return -EBADF;
  if (fd >= descriptors->capacity) {
    int64_t capacity = descriptors->capacity ? descriptors->capacity : 16;
    while (capacity <= fd)
      capacity *= 2;
    struct slot *slots = realloc(descriptors->slots, (size_t)capacity * sizeof(*slots));
    if (!slots)
      return -ENOMEM;
    memset(slots + descriptors->capacity, 0,
           (size_t)(capacity - descriptors->capacity) * sizeof(*slots));
    descriptors->slots = slots;
    descriptors->capacity = capacity;
  }
  descriptors->slots[fd] = slot;
  handles->handles[slot.handle - 1].shares++;
  return 0;
}

struct descriptors *descriptors_new(void) {
  struct descriptors *made = calloc(1, sizeof(*made));
  if (made)
    made->users = 1;
  return made;
}

struct descriptors *descriptors_copy(const struct descriptors *from, struct handles *handles) {
  struct descriptors *made = descriptors_new();
  if (!made || from->capacity == 0)
    return made;
  made->slots = malloc((size_t)from->capacity * sizeof(*made->slots));
  if (!made->slots) {
    free(made);
    return NULL;
  }
  memcpy(made->slots, from->slots, (size_t)from->capacity * sizeof(*made->slots));
  made->capacity = from->capacity;
  for (int64_t fd = 0; fd < made->capacity; fd++)
    if (made->slots[fd].handle)
      handles->handles[made->slots[fd].handle - 1].shares++;
  return made;
}

void descriptors_free(struct descriptors *descriptors) {
  if (descriptors)
    free(descriptors->slots);
  free(descriptors);
}

void handles_clear(struct handles *handles) {
  free(handles->handles);
  free(handles->free);
  *handles = (struct handles){0};
}

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
  out->offset_bytes = place_behind(map->offset_bytes, (int64_t)(from - map->start));
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
    rest.offset_bytes = place_behind(map->offset_bytes, (int64_t)(cut_end - map->start));
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
