#include "model/page_runs.h"

#include <errno.h>
#include <stdlib.h>

#include "model/block_map.h"

struct page_runs {
  struct block_map *map;
};

int tk_page_runs_new(const int64_t *keys, uint32_t count, struct page_runs **out) {
  if (count >= PAGE_MAX)
    return -EINVAL;
  struct page_runs *pages = calloc(1, sizeof *pages);
  if (pages == NULL)
    return -ENOMEM;
  const int error = block_map_new(keys, count, &pages->map);
  if (error) {
    free(pages);
    return error;
  }
  *out = pages;
  return 0;
}

int64_t tk_page_runs_find(const struct page_runs *pages, const struct page_access *rows,
                          uint64_t count, struct page_run *runs, uint64_t capacity,
                          uint64_t *done) {
  uint64_t made = 0;
  /* An access is never torn over two calls: all its runs fit, or it waits for the next call. */
  for (*done = 0; *done < count; ++*done) {
    const struct page_access *row = &rows[*done];
    const uint64_t parts = ((uint64_t)row->count + UINT16_MAX - 1) / UINT16_MAX;
    uint32_t following;
    if (row->role >= PAGE_ROLES || row->count == 0 || parts > capacity)
      return -EINVAL;
    if (made + parts > capacity)
      break;
    uint32_t first = block_map_find(pages->map, row->key, &following);
    if (first == BLOCK_MAP_NONE || following < row->count)
      return -ENOENT;
    for (uint32_t left = row->count; left > 0;) {
      const uint16_t part = left < UINT16_MAX ? (uint16_t)left : UINT16_MAX;
      runs[made++] = (struct page_run){
          .first = first, .count = part, .is_write = row->is_write, .role = row->role};
      first += part;
      left -= part;
    }
  }
  return (int64_t)made;
}

void tk_page_runs_free(struct page_runs *pages) {
  if (pages == NULL)
    return;
  block_map_free(pages->map);
  free(pages);
}
