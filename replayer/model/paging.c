#include "model/paging.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "model/leaves.h"

#define PAGE_SECTORS 8
#define CHUNK_PAGES TK_PAGING_CHUNK_PAGES
#define SECTOR_MAX ((int64_t)(CHUNK_PAGES * PAGE_SECTORS) << TK_PAGING_DEVICE_SHIFT)
#define SECTORS_MAX (INT64_C(1) << 23) /* block layers count a request's bytes in 32 bits */
#define DEVICES_MAX (INT64_C(1) << 24)
#define FIRST_SPACE 1024u

struct tk_paging {
  struct leaf_map map; /* from a chunk's key to its place */
  struct tk_paging_chunk *chunks;
  uint32_t count;
  uint32_t space;
  uint32_t last; /* the chunk that was found last: requests often stay in one */
};

int tk_paging_new(struct tk_paging **out) {
  struct tk_paging *paging = calloc(1, sizeof *paging);
  if (paging == NULL)
    return -ENOMEM;
  paging->space = FIRST_SPACE;
  paging->chunks = malloc(paging->space * sizeof *paging->chunks);
  if (paging->chunks == NULL || leaf_map_init(&paging->map) != 0) {
    tk_paging_free(paging);
    return -ENOMEM;
  }
  *out = paging;
  return 0;
}

static int add_chunk(struct tk_paging *paging, uint64_t key) {
  if (paging->count == paging->space) {
    const uint32_t space = 2 * paging->space;
    struct tk_paging_chunk *chunks = realloc(paging->chunks, space * sizeof *chunks);
    if (chunks == NULL)
      return -ENOMEM;
    paging->chunks = chunks;
    paging->space = space;
  }
  struct leaf_map_entry *entry = leaf_map_add(&paging->map, key);
  if (entry == NULL)
    return -ENOMEM;
  entry->value = paging->count;
  paging->last = paging->count;
  paging->chunks[paging->count++] = (struct tk_paging_chunk){.key = key};
  return 0;
}

/* Sets the chunk of a key, NULL for one that is beyond the most. */
static int find_chunk(struct tk_paging *paging, uint64_t key, struct tk_paging_chunk **found) {
  *found = NULL;
  if (paging->count == 0 || paging->chunks[paging->last].key != key) {
    const struct leaf_map_entry *entry = leaf_map_find(&paging->map, key);
    if (entry == NULL && paging->count == TK_PAGING_MOST_CHUNKS)
      return 0;
    const int error = entry == NULL ? add_chunk(paging, key) : 0;
    if (error)
      return error;
    paging->last = entry == NULL ? paging->last : entry->value;
  }
  *found = &paging->chunks[paging->last];
  return 0;
}

static void count_pages(struct tk_paging_chunk *chunk, int kind, uint64_t pages) {
  const uint32_t more = (uint32_t)__builtin_popcountll(pages);
  if (__builtin_add_overflow(chunk->counts[kind], more, &chunk->counts[kind]))
    chunk->counts[kind] = UINT32_MAX;
}

static int touch(struct tk_paging *paging, uint64_t key, uint64_t pages, int written_by) {
  struct tk_paging_chunk *chunk;
  const int error = find_chunk(paging, key, &chunk);
  if (error || chunk == NULL)
    return error;
  if (written_by != TK_PAGING_KINDS) {
    count_pages(chunk, written_by, pages);
    chunk->written |= pages;
    return 0;
  }
  count_pages(chunk, TK_PAGING_KNOWN, pages & chunk->written);
  count_pages(chunk, TK_PAGING_FRESH, pages & ~chunk->written);
  return 0;
}

static bool is_possible(int64_t device, int64_t sector, int64_t end) {
  return device >= 0 && device < DEVICES_MAX && sector >= 0 && end > sector && end <= SECTOR_MAX &&
         end - sector <= SECTORS_MAX;
}

/* Counts the pages from `page` to before `end` of a device. */
static int touch_pages(struct tk_paging *paging, uint64_t device, uint64_t page, uint64_t end,
                       int written_by) {
  int error = 0;
  while (page < end && !error) {
    const uint64_t chunk = page / CHUNK_PAGES;
    const uint64_t chunk_end = (chunk + 1) * CHUNK_PAGES;
    const uint64_t stop = end < chunk_end ? end : chunk_end;
    const uint64_t pages = (UINT64_MAX >> (CHUNK_PAGES - (stop - page))) << (page % CHUNK_PAGES);
    error = touch(paging, device << TK_PAGING_DEVICE_SHIFT | chunk, pages, written_by);
    page = stop;
  }
  return error;
}

int tk_paging_add(struct tk_paging *paging, const struct tk_paging_touches *touches,
                  uint64_t count) {
  int error = 0;
  for (uint64_t i = 0; i < count && !error; i++) {
    if (!is_possible(touches->device[i], touches->sector[i], touches->end[i]))
      continue;
    const int writer = touches->is_reclaim[i] ? TK_PAGING_RECLAIMED : TK_PAGING_OTHER;
    error = touch_pages(paging, (uint64_t)touches->device[i],
                        (uint64_t)touches->sector[i] / PAGE_SECTORS,
                        (uint64_t)(touches->end[i] + PAGE_SECTORS - 1) / PAGE_SECTORS,
                        touches->is_write[i] ? writer : TK_PAGING_KINDS);
  }
  return error;
}

uint64_t tk_paging_count(const struct tk_paging *paging) { return paging->count; }

void tk_paging_read(struct tk_paging *paging, struct tk_paging_chunk *out) {
  leaf_map_sort(&paging->map);
  for (uint32_t i = 0; i < paging->count; i++)
    out[i] = paging->chunks[paging->map.entries[i].value];
}

void tk_paging_free(struct tk_paging *paging) {
  if (paging == NULL)
    return;
  leaf_map_free(&paging->map);
  free(paging->chunks);
  free(paging);
}
