#include "read/octf_window.h"

#include <errno.h>
#include <stdlib.h>

#include "common/hash.h"

static int allocate(struct octf_window *window, uint64_t rows) {
  window->rows = calloc(rows, sizeof(struct octf_row));
  window->buckets = calloc(rows, sizeof(struct octf_bucket));
  window->mask = rows - 1;
  return window->rows && window->buckets ? 0 : -ENOMEM;
}

int octf_window_open(struct octf_window *window) {
  *window = (struct octf_window){0};
  return allocate(window, OCTF_FIRST_ROWS);
}

void octf_window_close(struct octf_window *window) {
  free(window->rows);
  free(window->buckets);
  *window = (struct octf_window){0};
}

static struct octf_bucket *bucket_of(struct octf_window *window, const struct octf_row *row) {
  /* Numbers that follow each other keep close, for the sake of the cache. */
  uint64_t key = row->id ^ row->id >> 7 ^ row->id >> 20 ^ row->id >> 40;
  if (row->id == 0)
    key = hash_mix(hash_mix(row->sector ^ (uint64_t)(uint32_t)row->device << 54) + row->sectors);
  return &window->buckets[key & window->mask];
}

static void unlink_row(struct octf_window *window, struct octf_row *row) {
  struct octf_bucket *bucket = bucket_of(window, row);
  if (row->older)
    window->rows[row->older - 1].newer = row->newer;
  else
    bucket->oldest = row->newer;
  if (row->newer)
    window->rows[row->newer - 1].older = row->older;
  else
    bucket->newest = row->older;
}

/* Makes the request, which lies at `place`, the newest of its bucket. */
static void link_row(struct octf_window *window, uint32_t place) {
  struct octf_row *added = &window->rows[place];
  struct octf_bucket *bucket = bucket_of(window, added);
  added->older = bucket->newest;
  added->newer = 0;
  if (bucket->newest)
    window->rows[bucket->newest - 1].newer = place + 1;
  else
    bucket->oldest = place + 1;
  bucket->newest = place + 1;
}

static uint32_t put(struct octf_window *window, const struct octf_row *row) {
  uint32_t place = (uint32_t)(window->tail++ & window->mask);
  window->rows[place] = *row;
  return place;
}

/* Moves everything to a ring of twice the size. */
static int grow(struct octf_window *window) {
  struct octf_window larger = {.head = window->head, .tail = window->head};
  if (allocate(&larger, 2 * (window->mask + 1))) {
    octf_window_close(&larger);
    return -ENOMEM;
  }
  while (larger.tail < window->tail) {
    const struct octf_row *row = &window->rows[larger.tail & window->mask];
    uint32_t place = put(&larger, row);
    if (!row->is_complete)
      link_row(&larger, place);
  }
  octf_window_close(window);
  *window = larger;
  return 0;
}

int octf_window_add(struct octf_window *window, const struct octf_row *row) {
  if (window->tail - window->head > window->mask && grow(window))
    return -ENOMEM;
  link_row(window, put(window, row));
  return 0;
}

static bool is_same(const struct octf_row *left, const struct octf_row *right) {
  if (left->id || right->id)
    return left->id == right->id;
  return left->device == right->device && left->sector == right->sector &&
         left->sectors == right->sectors;
}

struct octf_row *octf_window_complete(struct octf_window *window, const struct octf_row *like) {
  const struct octf_bucket *bucket = bucket_of(window, like);
  uint32_t place = like->id ? bucket->newest : bucket->oldest;
  while (place) {
    struct octf_row *row = &window->rows[place - 1];
    if (is_same(row, like)) {
      unlink_row(window, row);
      row->is_complete = true;
      return row;
    }
    place = like->id ? row->older : row->newer;
  }
  return NULL;
}

struct octf_row *octf_window_take(struct octf_window *window) {
  struct octf_row *row = &window->rows[window->head++ & window->mask];
  if (!row->is_complete)
    unlink_row(window, row);
  return row;
}
