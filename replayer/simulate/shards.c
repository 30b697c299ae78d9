#include "simulate/shards.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "simulate/reuse.h"
#include "simulate/sample.h"
#include "simulate/size_buckets.h"

#define FIRST_PAGES 4096u
#define ROWS (2u * PAGE_ROLES)
#define SALT UINT64_C(0x9e3779b97f4a7c15) /* page 0 must not have the hash 0 */
#define SAMPLING_SHIFT 40                 /* the highest 24 bits decide, the lowest 5 group */

struct shards {
  struct sample sample;
  struct reuse reuse; /* by number of the sample */
  struct size_buckets buckets;
  double *sums;        /* SHARDS_GROUPS tables of ROWS by `columns` */
  uint32_t columns;    /* sizes + 2 */
  uint32_t threshold;  /* of SHARDS_SCALE */
  uint32_t page_limit; /* 0: none */
  double weight;       /* the inverse of the rate */
  uint64_t sampled;    /* references */
  uint64_t references[ROWS];
};

int tk_shards_new(const uint64_t *sizes, uint32_t size_count, uint32_t threshold,
                  uint32_t page_limit, struct shards **out) {
  if (threshold == 0 || threshold > SHARDS_SCALE || page_limit >= PAGE_MAX)
    return -EINVAL;
  struct shards *shards = calloc(1, sizeof *shards);
  if (shards == NULL)
    return -ENOMEM;
  /* One page more than the limit: it is there before another leaves for it. */
  const uint32_t first_pages = page_limit > 0 ? page_limit + 1 : FIRST_PAGES;
  shards->threshold = threshold;
  shards->page_limit = page_limit;
  shards->weight = (double)SHARDS_SCALE / threshold;
  shards->columns = size_count + 2;
  int error = size_buckets_init(&shards->buckets, sizes, size_count);
  if (error == 0)
    error = sample_init(&shards->sample, first_pages);
  if (error == 0)
    error = reuse_init(&shards->reuse, first_pages);
  if (error == 0) {
    shards->sums = calloc((size_t)SHARDS_GROUPS * ROWS * shards->columns, sizeof *shards->sums);
    error = shards->sums == NULL ? -ENOMEM : 0;
  }
  if (error) {
    tk_shards_free(shards);
    return error;
  }
  *out = shards;
  return 0;
}

/* Lowers the threshold to the largest hash in the sample, and drops the pages that have it. */
static void lower(struct shards *shards) {
  struct sample *sample = &shards->sample;
  const uint64_t last = sample->pages[sample_last(sample)].hash >> SAMPLING_SHIFT;
  while (sample->count > 0 && sample->pages[sample_last(sample)].hash >> SAMPLING_SHIFT == last) {
    reuse_forget(&shards->reuse, sample_last(sample));
    sample_drop_last(sample);
  }
  /* A threshold of 0 would have no rate; one page in 2^24 is sampled for ever. */
  shards->threshold = last > 0 ? (uint32_t)last : 1;
  shards->weight = (double)SHARDS_SCALE / shards->threshold;
}

static int make_room(struct shards *shards) {
  if (shards->sample.count < shards->sample.capacity)
    return 0;
  const uint32_t pages = shards->sample.capacity * 2;
  const int error = pages >= PAGE_MAX ? -ENOMEM : sample_grow(&shards->sample, pages);
  return error ? error : reuse_grow(&shards->reuse, pages);
}

static int add_page(struct shards *shards, int64_t key, uint64_t hash, uint32_t row) {
  uint32_t distance;
  uint32_t number = sample_find(&shards->sample, key, hash);
  if (number == SAMPLE_NONE) {
    const int error = make_room(shards);
    if (error)
      return error;
    number = sample_add(&shards->sample, key, hash);
  }
  (void)reuse_touch(&shards->reuse, number, 1, &distance); /* one page: one was touched */
  const uint32_t column =
      distance == REUSE_COLD
          ? shards->columns - 1
          : size_buckets_find(&shards->buckets, (uint64_t)(distance * shards->weight));
  const uint64_t group = hash % SHARDS_GROUPS;
  shards->sums[(group * ROWS + row) * shards->columns + column] += shards->weight;
  shards->sampled++;
  if (shards->page_limit > 0 && shards->sample.count > shards->page_limit)
    lower(shards);
  return 0;
}

int tk_shards_add(struct shards *shards, const struct page_access *rows, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    const struct page_access *access = &rows[i];
    const uint32_t row = access->role * 2u + (access->is_write != 0);
    if (access->role >= PAGE_ROLES)
      return -EINVAL;
    shards->references[row] += access->count;
    for (uint32_t page = 0; page < access->count; page++) {
      const int64_t key = access->key + page;
      const uint64_t hash = hash_mix((uint64_t)key + SALT);
      const int error =
          hash >> SAMPLING_SHIFT < shards->threshold ? add_page(shards, key, hash, row) : 0;
      if (error)
        return error;
    }
  }
  return 0;
}

void tk_shards_read(const struct shards *shards, double *sums, struct shards_totals *totals) {
  const size_t cells = (size_t)SHARDS_GROUPS * ROWS * shards->columns;
  memcpy(sums, shards->sums, cells * sizeof *sums);
  *totals = (struct shards_totals){
      .sampled = shards->sampled,
      .pages = shards->sample.count,
      .threshold = shards->threshold,
      .bytes = sizeof *shards + cells * sizeof *sums + sample_bytes(&shards->sample) +
               reuse_bytes(&shards->reuse) + shards->columns * sizeof *shards->buckets.sizes,
  };
  memcpy(totals->references, shards->references, sizeof totals->references);
}

void tk_shards_free(struct shards *shards) {
  if (shards == NULL)
    return;
  sample_free(&shards->sample);
  reuse_free(&shards->reuse);
  size_buckets_free(&shards->buckets);
  free(shards->sums);
  free(shards);
}
