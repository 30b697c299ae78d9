#include "simulate/sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The highest 24 bits decide about sampling and are all small in a sample: others are used here. */
#define PLACE_SHIFT 5

int sample_init(struct sample *sample, uint32_t capacity) {
  *sample = (struct sample){.capacity = capacity, .mask = 1};
  while (sample->mask < 2 * (uint64_t)capacity)
    sample->mask = sample->mask * 2 + 1;
  sample->pages = malloc(capacity * sizeof *sample->pages);
  sample->heap = malloc(capacity * sizeof *sample->heap);
  sample->free = malloc(capacity * sizeof *sample->free);
  sample->table = malloc((sample->mask + 1ul) * sizeof *sample->table);
  if (sample->pages == NULL || sample->heap == NULL || sample->free == NULL ||
      sample->table == NULL) {
    sample_free(sample);
    return -ENOMEM;
  }
  memset(sample->table, 0xff, (sample->mask + 1ul) * sizeof *sample->table);
  return 0;
}

void sample_free(struct sample *sample) {
  free(sample->pages);
  free(sample->heap);
  free(sample->free);
  free(sample->table);
  *sample = (struct sample){0};
}

static uint32_t home_of(const struct sample *sample, uint64_t hash) {
  return (uint32_t)(hash >> PLACE_SHIFT) & sample->mask;
}

/* Returns the entry of a page, or the empty one where it belongs. */
static uint32_t probe(const struct sample *sample, int64_t key, uint64_t hash) {
  uint32_t at = home_of(sample, hash);
  while (sample->table[at] != SAMPLE_NONE && sample->pages[sample->table[at]].key != key)
    at = (at + 1) & sample->mask;
  return at;
}

uint32_t sample_find(const struct sample *sample, int64_t key, uint64_t hash) {
  return sample->table[probe(sample, key, hash)];
}

static uint64_t hash_at(const struct sample *sample, uint32_t place) {
  return sample->pages[sample->heap[place]].hash;
}

uint32_t sample_add(struct sample *sample, int64_t key, uint64_t hash) {
  const uint32_t number =
      sample->free_count > 0 ? sample->free[--sample->free_count] : sample->count;
  uint32_t place = sample->count++;
  sample->pages[number] = (struct sample_page){.key = key, .hash = hash};
  sample->table[probe(sample, key, hash)] = number;
  for (; place > 0 && hash_at(sample, (place - 1) / 2) < hash; place = (place - 1) / 2)
    sample->heap[place] = sample->heap[(place - 1) / 2];
  sample->heap[place] = number;
  return number;
}

uint32_t sample_last(const struct sample *sample) { return sample->heap[0]; }

/* Empties an entry and moves later ones of its chain forward, so that no search ends early. */
static void close_gap(struct sample *sample, uint32_t gap) {
  uint32_t at = gap;
  for (;;) {
    at = (at + 1) & sample->mask;
    if (sample->table[at] == SAMPLE_NONE)
      break;
    const uint32_t home = home_of(sample, sample->pages[sample->table[at]].hash);
    if (((at - home) & sample->mask) < ((at - gap) & sample->mask))
      continue;
    sample->table[gap] = sample->table[at];
    gap = at;
  }
  sample->table[gap] = SAMPLE_NONE;
}

void sample_drop_last(struct sample *sample) {
  const uint32_t number = sample->heap[0];
  const uint32_t moved = sample->heap[--sample->count];
  uint32_t place = 0;
  close_gap(sample, probe(sample, sample->pages[number].key, sample->pages[number].hash));
  sample->free[sample->free_count++] = number;
  for (;;) {
    uint32_t child = 2 * place + 1;
    if (child + 1 < sample->count && hash_at(sample, child + 1) > hash_at(sample, child))
      child++;
    if (child >= sample->count || hash_at(sample, child) <= sample->pages[moved].hash)
      break;
    sample->heap[place] = sample->heap[child];
    place = child;
  }
  sample->heap[place] = moved;
}

int sample_grow(struct sample *sample, uint32_t capacity) {
  struct sample bigger;
  const int error = sample_init(&bigger, capacity);
  if (error)
    return error;
  memcpy(bigger.pages, sample->pages, sample->capacity * sizeof *bigger.pages);
  memcpy(bigger.heap, sample->heap, sample->count * sizeof *bigger.heap);
  memcpy(bigger.free, sample->free, sample->free_count * sizeof *bigger.free);
  bigger.count = sample->count;
  bigger.free_count = sample->free_count;
  for (uint32_t place = 0; place < bigger.count; place++) {
    const struct sample_page *page = &bigger.pages[bigger.heap[place]];
    bigger.table[probe(&bigger, page->key, page->hash)] = bigger.heap[place];
  }
  sample_free(sample);
  *sample = bigger;
  return 0;
}

uint64_t sample_bytes(const struct sample *sample) {
  return sample->capacity * (sizeof *sample->pages + sizeof *sample->heap + sizeof *sample->free) +
         (sample->mask + 1ul) * sizeof *sample->table;
}
