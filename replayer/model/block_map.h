/* Finds a block in a sorted set of block keys: runs of consecutive keys under a directory. */
#ifndef TRACEKIT_MODEL_BLOCK_MAP_H
#define TRACEKIT_MODEL_BLOCK_MAP_H

#include <stdint.h>

#define BLOCK_MAP_NONE UINT32_MAX

struct block_map;

/* Builds a map of `count` keys; `keys` may be freed afterwards. Memory: at most 16 bytes a key and
 * 4 MiB. Returns 0, -EINVAL when the keys are not strictly ascending or there are too many,
 * or -ENOMEM. */
int block_map_new(const int64_t *keys, uint32_t count, struct block_map **map);

/* Returns the index of `key` among the keys, or BLOCK_MAP_NONE. `*following` is set to the number
 * of keys that continue it without a gap, itself included. Any number of threads. */
uint32_t block_map_find(const struct block_map *map, int64_t key, uint32_t *following);

/* Bring closer what block_map_find will read of a key: first its slot in the directory, and when
 * that is there its run. */
void block_map_prefetch_slot(const struct block_map *map, int64_t key);
void block_map_prefetch_run(const struct block_map *map, int64_t key);

/* Frees the map; NULL is fine. */
void block_map_free(struct block_map *map);

#endif
