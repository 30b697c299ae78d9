#include "model/device_split.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_CAPACITY 16u

void device_split_clear(struct device_split *split) {
  split->count = 0;
  split->lowest = UINT16_MAX;
}

int device_split_add(struct device_split *split, uint16_t point, int64_t sector, int64_t end,
                     int64_t nvm_sector) {
  split->lowest = point < split->lowest ? point : split->lowest;

  /* Neighbouring blocks with the same point change devices together, and are neighbours there. */
  if (split->count > 0 && split->parts[split->count - 1].point == point) {
    split->parts[split->count - 1].end = end;
    split->parts[split->count - 1].nvm_end += end - sector;
    return 0;
  }
  if (split->count == split->capacity) {
    const uint32_t capacity = split->capacity ? split->capacity * 2 : FIRST_CAPACITY;
    struct split_part *parts = realloc(split->parts, capacity * sizeof *parts);
    if (parts == NULL)
      return -ENOMEM;
    split->parts = parts;
    split->capacity = capacity;
  }
  split->parts[split->count++] =
      (struct split_part){sector, end, nvm_sector, nvm_sector + end - sector, point};
  return 0;
}

void device_split_free(struct device_split *split) { free(split->parts); }
