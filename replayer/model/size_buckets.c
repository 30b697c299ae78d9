#include "model/size_buckets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CELLS_LOG2 5
#define CELLS_PER_OCTAVE (1u << CELLS_LOG2)

static uint32_t cell_of(uint64_t distance) {
  if (distance < CELLS_PER_OCTAVE)
    return (uint32_t)distance;
  const uint32_t shift = 63u - CELLS_LOG2 - (uint32_t)__builtin_clzll(distance);
  return (shift + 1) * CELLS_PER_OCTAVE + (uint32_t)((distance >> shift) % CELLS_PER_OCTAVE);
}

/* Returns the smallest distance of a cell. */
static uint64_t lowest_of(uint32_t cell) {
  if (cell < CELLS_PER_OCTAVE)
    return cell;
  const uint32_t shift = cell / CELLS_PER_OCTAVE - 1;
  return shift + CELLS_LOG2 >= 63 ? UINT64_MAX
                                  : (uint64_t)(CELLS_PER_OCTAVE + cell % CELLS_PER_OCTAVE) << shift;
}

int size_buckets_init(struct size_buckets *buckets, const uint64_t *sizes, uint32_t count) {
  *buckets = (struct size_buckets){.count = count};
  if (count == 0 || sizes[0] == 0)
    return -EINVAL;
  for (uint32_t i = 1; i < count; i++)
    if (sizes[i] <= sizes[i - 1])
      return -EINVAL;
  buckets->sizes = malloc(count * sizeof *buckets->sizes);
  if (buckets->sizes == NULL)
    return -ENOMEM;
  memcpy(buckets->sizes, sizes, count * sizeof *sizes);

  /* Where the search for a distance begins, by its leading bits. */
  for (uint32_t cell = 0, at = 0; cell < SIZE_BUCKETS_CELLS; cell++) {
    while (at < count && sizes[at] <= lowest_of(cell))
      at++;
    buckets->start[cell] = at;
  }
  return 0;
}

void size_buckets_free(struct size_buckets *buckets) {
  free(buckets->sizes);
  *buckets = (struct size_buckets){0};
}

uint32_t size_buckets_find(const struct size_buckets *buckets, uint64_t distance) {
  uint32_t at = buckets->start[cell_of(distance)];
  while (at < buckets->count && buckets->sizes[at] <= distance)
    at++;
  return at;
}
