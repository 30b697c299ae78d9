#include "model/share.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_ROOM 16u

void share_clear(struct share *share) { share->count = 0; }

int share_add(struct share *share, uint16_t point, int64_t sector, int64_t end) {
  if (share->count == 0)
    share->first_point = point;
  share->last_point = point;
  if (share->count > 0 && share->cuts[share->count - 1].point == point) {
    share->cuts[share->count - 1].sectors += end - sector;
    share->cuts[share->count - 1].end = end;
    return 0;
  }
  if (share->count == share->room) {
    const uint32_t room = share->room ? share->room * 2 : FIRST_ROOM;
    struct share_cut *cuts = realloc(share->cuts, room * sizeof *cuts);
    if (cuts == NULL)
      return -ENOMEM;
    share->cuts = cuts;
    share->room = room;
  }
  share->cuts[share->count++] = (struct share_cut){end - sector, sector, end, point};
  return 0;
}

static int by_point(const void *left, const void *right) {
  const struct share_cut *a = left;
  const struct share_cut *b = right;
  return (a->point > b->point) - (a->point < b->point);
}

/* Most requests have few cuts, and nearly sorted ones. */
static void sort(struct share_cut *cuts, uint32_t count) {
  if (count > FIRST_ROOM) {
    qsort(cuts, count, sizeof *cuts, by_point);
    return;
  }
  for (uint32_t i = 1; i < count; i++) {
    const struct share_cut cut = cuts[i];
    uint32_t at = i;
    for (; at > 0 && cuts[at - 1].point > cut.point; at--)
      cuts[at] = cuts[at - 1];
    cuts[at] = cut;
  }
}

static void merge(struct share_cut *into, const struct share_cut *from) {
  into->sectors += from->sectors;
  into->first = into->first < from->first ? into->first : from->first;
  into->end = into->end > from->end ? into->end : from->end;
}

void share_finish(struct share *share) {
  if (share->count < 2)
    return;
  sort(share->cuts, share->count);
  uint32_t kept = 0;
  for (uint32_t i = 1; i < share->count; i++) {
    if (share->cuts[i].point == share->cuts[kept].point)
      merge(&share->cuts[kept], &share->cuts[i]);
    else
      share->cuts[++kept] = share->cuts[i];
  }
  share->count = kept + 1;
  for (uint32_t i = kept; i-- > 0;)
    merge(&share->cuts[i], &share->cuts[i + 1]);
}

void share_free(struct share *share) { free(share->cuts); }
