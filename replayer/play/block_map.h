/* The blocks of a file that have space on their file system, as requests take it and free it. */
#ifndef TRACEKIT_PLAY_BLOCK_MAP_H
#define TRACEKIT_PLAY_BLOCK_MAP_H

#include <stdint.h>

struct block_map;

/* Makes the map of a file of `size_bytes` without any block. One that is larger than 2^31 blocks
 * has coarser places, each of which counts as one block: what it needs is then a lower bound. Free
 * with block_map_free. NULL without memory. */
struct block_map *block_map_new(uint64_t size_bytes, uint32_t block_bytes);

/* Marks a range as one that has its space already, without counting it. */
void block_map_begin(struct block_map *map, uint64_t offset_bytes, uint64_t length_bytes);

/* A write takes the blocks that it touches; a discard frees those that it covers. */
void block_map_take(struct block_map *map, uint64_t offset_bytes, uint64_t length_bytes);
void block_map_release(struct block_map *map, uint64_t offset_bytes, uint64_t length_bytes);

/* Returns the most bytes that were taken at once beyond those of the beginning. */
uint64_t block_map_peak_bytes(const struct block_map *map);

/* NULL is fine. */
void block_map_free(struct block_map *map);

#endif
