#include "model/device_split.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_CAPACITY 16u

void device_split_clear(struct device_split *split) { split->count = 0; }

int device_split_add(struct device_split *split, uint16_t point, int64_t sector, int64_t end) {
  if (split->count == 0)
    split->first_point = point;
  split->last_point = point;

  /* Neighbouring blocks with the same point change devices together: they are one cut. */
  if (split->count > 0 && split->cuts[split->count - 1].point == point) {
    split->cuts[split->count - 1].sectors += end - sector;
    split->cuts[split->count - 1].end = end;
    return 0;
  }
  if (split->count == split->capacity) {
    const uint32_t capacity = split->capacity ? split->capacity * 2 : FIRST_CAPACITY;
    struct split_cut *cuts = realloc(split->cuts, capacity * sizeof *cuts);
    if (cuts == NULL)
      return -ENOMEM;
    split->cuts = cuts;
    split->capacity = capacity;
  }
  split->cuts[split->count++] = (struct split_cut){end - sector, sector, end, point};
  return 0;
}

static int by_point(const void *left, const void *right) {
  const struct split_cut *a = left;
  const struct split_cut *b = right;
  return (a->point > b->point) - (a->point < b->point);
}

/* Most requests have few cuts, and nearly sorted ones. */
static void sort(struct split_cut *cuts, uint32_t count) {
  if (count > FIRST_CAPACITY) {
    qsort(cuts, count, sizeof *cuts, by_point);
    return;
  }
  for (uint32_t i = 1; i < count; i++) {
    const struct split_cut cut = cuts[i];
    uint32_t at = i;
    for (; at > 0 && cuts[at - 1].point > cut.point; at--)
      cuts[at] = cuts[at - 1];
    cuts[at] = cut;
  }
}

static void merge(struct split_cut *into, const struct split_cut *from) {
  into->sectors += from->sectors;
  into->first = into->first < from->first ? into->first : from->first;
  into->end = into->end > from->end ? into->end : from->end;
}

void device_split_finish(struct device_split *split) {
  if (split->count < 2)
    return;
  sort(split->cuts, split->count);
  uint32_t kept = 0;
  for (uint32_t i = 1; i < split->count; i++) {
    if (split->cuts[i].point == split->cuts[kept].point)
      merge(&split->cuts[kept], &split->cuts[i]);
    else
      split->cuts[++kept] = split->cuts[i];
  }
  split->count = kept + 1;
  for (uint32_t i = kept; i-- > 0;)
    merge(&split->cuts[i], &split->cuts[i + 1]);
}

void device_split_free(struct device_split *split) { free(split->cuts); }
