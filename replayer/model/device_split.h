/* The parts of a request that move to NVM together, in the order of addresses. */
#ifndef TRACEKIT_MODEL_DEVICE_SPLIT_H
#define TRACEKIT_MODEL_DEVICE_SPLIT_H

#include <stdint.h>

/* Neighbouring blocks with the same point. */
struct split_part {
  int64_t first;     /* of its sectors */
  int64_t end;       /* one past its last sector */
  int64_t nvm_first; /* where they lie on NVM, see nvm_layout.h */
  int64_t nvm_end;
  uint16_t point; /* on NVM below a limit above it */
};

struct device_split {
  struct split_part *parts;
  uint32_t count;
  uint32_t capacity;
  uint16_t lowest; /* of the points */
};

/* Begins a new request, keeping the memory. */
void device_split_clear(struct device_split *split);

/* Adds the next sectors of the request, ascending, which are one block's. Returns 0 or -ENOMEM. */
int device_split_add(struct device_split *split, uint16_t point, int64_t sector, int64_t end,
                     int64_t nvm_sector);

/* Frees the memory of a split; one of zeros is fine. */
void device_split_free(struct device_split *split);

#endif
