#include "files/timeline.h"

/* The rows are sums, so that the ones that stay need no change. */
static void thin_out(struct timeline *timeline) {
  for (uint32_t i = 1; i < timeline->count; i += 2)
    timeline->rows[i / 2] = timeline->rows[i];
  timeline->count /= 2;
  timeline->interval_ns *= 2;
}

void timeline_add(struct timeline *timeline, const struct timeline_row *row) {
  if (timeline->count == TIMELINE_ROWS)
    thin_out(timeline);
  timeline->rows[timeline->count++] = *row;
}
