/* A growing map from 32-bit keys (process ids, device numbers) to 32-bit values. */
#ifndef TRACEKIT_COMMON_IDMAP_H
#define TRACEKIT_COMMON_IDMAP_H

#include <stdint.h>

struct idmap_slot {
  uint32_t key;
  uint32_t value;
  uint32_t used; /* 0 or 1 */
};

/* Embedded by its owner; all zero is a valid empty map. */
struct idmap {
  struct idmap_slot *slots;
  uint32_t capacity; /* slots, a power of two or 0 */
  uint32_t count;    /* used slots */
};

/* Returns the value's place, or NULL when the key is absent. Valid until the next idmap_set. */
uint32_t *idmap_get(const struct idmap *map, uint32_t key);

/* Adds or replaces. Returns 0 or -ENOMEM. */
int idmap_set(struct idmap *map, uint32_t key, uint32_t value);

/* Frees the slots; the map is empty and usable again. */
void idmap_clear(struct idmap *map);

#endif
