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
