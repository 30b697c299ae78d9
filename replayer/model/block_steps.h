/* Goes through the blocks that a request touches, in the loop of every placement model. */
#ifndef TRACEKIT_MODEL_BLOCK_STEPS_H
#define TRACEKIT_MODEL_BLOCK_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/block_map.h"
#include "model/issue_queue.h"
#include "model/placement.h"

#define BLOCK_SECTORS 8

/* The request's part in one block. */
struct block_steps {
  const struct block_map *map;
  const struct tk_placement_device *device;
  int64_t first;  /* of its sectors, of 512 bytes */
  int64_t end;    /* one past its last */
  uint32_t index; /* of the block among the keys, or BLOCK_MAP_NONE */
  uint32_t following;
  int64_t request_end;
};

/* Stands before the first block of a request. */
static inline struct block_steps block_steps_of(const struct block_map *map,
                                                const struct tk_placement_device *device,
                                                const struct issue_request *request) {
  return (struct block_steps){.map = map,
                              .device = device,
                              .end = request->sector,
                              .index = BLOCK_MAP_NONE,
                              .request_end = request->sector + request->sectors};
}

/* Returns how many runs of sectors, apart by whole blocks, a request can have on a device. */
static inline int64_t block_steps_most_runs(const struct issue_request *request) {
  const int64_t last = (request->sector + request->sectors - 1) / BLOCK_SECTORS;
  return (last - request->sector / BLOCK_SECTORS + 2) / 2;
}

/* Goes on to the next block; returns false after the last. A block is looked up only where the keys
 * have a gap. */
static inline bool block_steps_next(struct block_steps *steps) {
  if (steps->end >= steps->request_end)
    return false;
  const int64_t block = steps->end / BLOCK_SECTORS;
  const int64_t block_end = (block + 1) * BLOCK_SECTORS;
  const int64_t within = block - steps->device->first_block;
  steps->first = steps->end;
  steps->end = block_end < steps->request_end ? block_end : steps->request_end;
  if (steps->following > 1) {
    steps->following--;
    steps->index++;
    return true;
  }
  steps->following = 0;
  steps->index = BLOCK_MAP_NONE;
  if (within >= 0 && within < steps->device->blocks)
    steps->index = block_map_find(steps->map, steps->device->first_key + within, &steps->following);
  if (steps->index == BLOCK_MAP_NONE)
    steps->following = 0;
  return true;
}

#endif
