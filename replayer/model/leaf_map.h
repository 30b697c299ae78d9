/* A hash map from the 64-bit key of a leaf (a group of neighbouring blocks) to a 32-bit value.
 *
 * Open addressing in one array of 16-byte entries that doubles when it is three quarters full, so
 * that a probe costs one cache line. A caller with a memory budget asks for the price of the next
 * addition first. Not thread-safe: one map belongs to one thread at a time. */
#ifndef TRACEKIT_MODEL_LEAF_MAP_H
#define TRACEKIT_MODEL_LEAF_MAP_H

#include <stddef.h>
#include <stdint.h>

struct leaf_map_entry {
  uint64_t key;     /* any value */
  uint32_t value;   /* the caller's */
  uint32_t is_used; /* 0 in an empty entry */
};

struct leaf_map {
  struct leaf_map_entry *entries; /* 1 << size_log2 of them */
  uint64_t count;                 /* entries in use */
  uint32_t size_log2;             /* binary logarithm of the table's length */
};

/* Makes an empty map. Returns 0 or -ENOMEM. */
int leaf_map_init(struct leaf_map *map);

/* Frees the table; a zeroed or freed map is fine. */
void leaf_map_free(struct leaf_map *map);

/* Forgets every entry and keeps the table's memory. Also makes a sorted map usable again. */
void leaf_map_clear(struct leaf_map *map);

/* Returns the entry of `key`, or NULL. It is valid until the next addition. */
struct leaf_map_entry *leaf_map_find(const struct leaf_map *map, uint64_t key);

/* Returns a new entry with value 0 for a key that the map does not hold, or NULL with errno
 * ENOMEM. Pointers to other entries are invalid afterwards. */
struct leaf_map_entry *leaf_map_add(struct leaf_map *map, uint64_t key);

/* Returns the bytes that the table takes now. */
size_t leaf_map_bytes(const struct leaf_map *map);

/* Returns the bytes that the next addition allocates: 0, or those of the doubled table, which
 * exists beside the present one while the entries move. */
size_t leaf_map_growth_bytes(const struct leaf_map *map);

/* Brings the cache line in which the search for `key` starts closer. */
void leaf_map_prefetch(const struct leaf_map *map, uint64_t key);

/* Moves the used entries to the front of `entries`, by ascending key. Only leaf_map_clear and
 * leaf_map_free may follow. */
void leaf_map_sort(struct leaf_map *map);

#endif
