/* Which part of a request each device holds, for every capacity at which that changes. */
#ifndef TRACEKIT_MODEL_DEVICE_SPLIT_H
#define TRACEKIT_MODEL_DEVICE_SPLIT_H

#include <stdint.h>

/* What the base device holds while the blocks of this and of later cuts are there. */
struct split_cut {
  int64_t sectors; /* on the base device */
  int64_t first;   /* its first sector there */
  int64_t end;     /* one past its last sector there */
  uint16_t point;  /* of the blocks that leave next */
};

/* A block is on NVM below a limit above its point; `cuts` ascend by point. */
struct device_split {
  struct split_cut *cuts;
  uint32_t count;
  uint32_t capacity;
  uint16_t first_point; /* of the request's first block */
  uint16_t last_point;
};

/* Begins a new request, keeping the memory. */
void device_split_clear(struct device_split *split);

/* Adds the next sectors of the request, ascending. Returns 0 or -ENOMEM. */
int device_split_add(struct device_split *split, uint16_t point, int64_t sector, int64_t end);

/* Sorts what was added and sums it up: call once, after the last sectors. */
void device_split_finish(struct device_split *split);

/* Frees the memory of a split; one of zeros is fine. */
void device_split_free(struct device_split *split);

#endif
