#include "model/sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/page_runs.h"

#define EMPTY UINT64_MAX
/* The lowest bits group pages and the highest decide about sampling, so those between find a place.
 */
#define PLACE_SHIFT 8
/* Four fifths full, the search for a page ends after 3 places on the average, for a new one after
 * 13, which are two lines of memory. */
#define FREE_SHARE 4u

int sample_init(struct sample *sample, uint32_t most) {
  *sample = (struct sample){.most = most, .places = most + most / FREE_SHARE + 1};
  const int error = reuse_init(&sample->reuse, sample->places);
  if (error)
    return error;
  sample->hashes = malloc(sample->places * sizeof *sample->hashes);
  if (sample->hashes == NULL) {
    sample_free(sample);
    return -ENOMEM;
  }
  memset(sample->hashes, 0xff, sample->places * sizeof *sample->hashes);
  return 0;
}

void sample_free(struct sample *sample) {
  free(sample->hashes);
  reuse_free(&sample->reuse);
  *sample = (struct sample){0};
}

static uint32_t home_of(const struct sample *sample, uint64_t hash) {
  const uint32_t bits = (uint32_t)(hash >> PLACE_SHIFT);
  return (uint32_t)((uint64_t)bits * sample->places >> 32);
}

static uint32_t next_place(const struct sample *sample, uint32_t place) {
  return place + 1 == sample->places ? 0 : place + 1;
}

/* Returns the steps from a place forward to another. */
static uint32_t steps(const struct sample *sample, uint32_t from, uint32_t to) {
  return to >= from ? to - from : to + (sample->places - from);
}

/* Returns the place of a page, or the empty one where it belongs. */
static uint32_t find(const struct sample *sample, uint64_t hash) {
  uint32_t at = home_of(sample, hash);
  while (sample->hashes[at] != hash && sample->hashes[at] != EMPTY)
    at = next_place(sample, at);
  return at;
}

void sample_prefetch(const struct sample *sample, uint64_t hash) {
  const uint32_t home = home_of(sample, hash);
  __builtin_prefetch(&sample->hashes[home], 1);
  reuse_prefetch_slot(&sample->reuse, home);
}

void sample_prefetch_slot(const struct sample *sample, uint64_t hash) {
  reuse_prefetch_word(&sample->reuse, find(sample, hash));
}

/* Doubles the table: pages get other places. */
static int grow(struct sample *sample) {
  struct sample bigger = {0};
  uint32_t *moved = malloc(sample->places * sizeof *moved);
  const uint32_t most = sample->most * 2;
  int error = moved == NULL || most >= PAGE_MAX ? -ENOMEM : sample_init(&bigger, most);
  if (error)
    goto free_moved;
  for (uint32_t place = 0; place < sample->places; place++) {
    const uint64_t hash = sample->hashes[place];
    if (hash == EMPTY)
      continue;
    moved[place] = find(&bigger, hash);
    bigger.hashes[moved[place]] = hash;
  }
  reuse_move_all(&sample->reuse, &bigger.reuse, moved);
  bigger.count = sample->count;
  sample_free(sample);
  *sample = bigger;

free_moved:
  free(moved);
  return error;
}

int sample_touch(struct sample *sample, uint64_t hash, uint32_t *distance) {
  hash -= hash == EMPTY; /* of 2^64 pages two share a place */
  uint32_t place = find(sample, hash);
  if (sample->hashes[place] == EMPTY) {
    if (sample->count == sample->most) {
      const int error = grow(sample);
      if (error)
        return error;
      place = find(sample, hash);
    }
    sample->hashes[place] = hash;
    sample->count++;
  }
  (void)reuse_touch(&sample->reuse, place, 1, distance); /* one page: one was touched */
  return 0;
}

/* Empties a place and moves later pages of its chain forward, so that no search ends early. */
static void close_gap(struct sample *sample, uint32_t gap) {
  for (uint32_t at = next_place(sample, gap); sample->hashes[at] != EMPTY;
       at = next_place(sample, at)) {
    const uint32_t home = home_of(sample, sample->hashes[at]);
    if (steps(sample, home, at) < steps(sample, gap, at))
      continue;
    sample->hashes[gap] = sample->hashes[at];
    reuse_move(&sample->reuse, at, gap);
    gap = at;
  }
  sample->hashes[gap] = EMPTY;
}

void sample_cut(struct sample *sample, uint32_t threshold) {
  for (uint32_t place = 0; place < sample->places; place++) {
    /* What comes from further on to close the gap may have to go as well. */
    while (sample->hashes[place] != EMPTY &&
           sample->hashes[place] >> SAMPLE_HASH_SHIFT >= threshold) {
      reuse_forget(&sample->reuse, place);
      sample->count--;
      close_gap(sample, place);
    }
  }
  reuse_forgot(&sample->reuse);
}

uint64_t sample_bytes(const struct sample *sample) {
  return sample->places * sizeof *sample->hashes + reuse_bytes(&sample->reuse);
}
