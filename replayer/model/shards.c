#include "model/shards.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "model/sample.h"
#include "model/size_buckets.h"

#define FIRST_PAGES 4096u
#define ROWS (2u * PAGE_ROLES)
#define SALT UINT64_C(0x9e3779b97f4a7c15) /* page 0 must not have the hash 0 */
#define CUT_SHARE 8u /* a full sample gives up so much of its rate: rarely, and not much */
#define SOON 8u
#define PAGES 256u   /* pages that are hashed together */
#define STEP 8u      /* pages that are written at once: so many or fewer cost the same */
#define WAITING 128u /* sampled references that are handled together */

/* A reference of a sampled page, which is on its way from memory. */
struct waiting {
  uint64_t hash;
  uint32_t row; /* role * 2 + is_write */
};

struct shards {
  struct sample sample;
  struct size_buckets buckets;
  double *sums;        /* SHARDS_GROUPS tables of ROWS by `columns` */
  uint32_t columns;    /* sizes + 2 */
  uint32_t threshold;  /* of SHARDS_SCALE */
  uint32_t page_limit; /* 0: none */
  double weight;       /* the inverse of the rate */
  uint64_t sampled;    /* references */
  uint64_t references[ROWS];
  uint32_t page_count;
  uint32_t waiting_count;
  uint64_t keys[PAGES]; /* salted */
  uint8_t rows[PAGES];
  struct waiting waiting[WAITING + PAGES];
};

int tk_shards_new(const uint64_t *sizes, uint32_t size_count, uint32_t threshold,
                  uint32_t page_limit, struct shards **out) {
  if (threshold == 0 || threshold > SHARDS_SCALE || page_limit >= PAGE_MAX)
    return -EINVAL;
  struct shards *shards = calloc(1, sizeof *shards);
  if (shards == NULL)
    return -ENOMEM;
  /* One page more than the limit: it is there before others leave for it. */
  const uint32_t first_pages = page_limit > 0 ? page_limit + 1 : FIRST_PAGES;
  shards->threshold = threshold;
  shards->page_limit = page_limit;
  shards->weight = (double)SHARDS_SCALE / threshold;
  shards->columns = size_count + 2;
  int error = size_buckets_init(&shards->buckets, sizes, size_count);
  if (error == 0)
    error = sample_init(&shards->sample, first_pages);
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

/* Lowers the threshold until the sample is within its limit. */
static void lower(struct shards *shards) {
  uint32_t threshold = shards->threshold;
  while (shards->sample.count > shards->page_limit) {
    const uint32_t step = threshold / CUT_SHARE;
    threshold -= step > 0 || threshold == 0 ? step : 1;
    sample_cut(&shards->sample, threshold);
  }
  /* A threshold of 0 would have no rate; one page in 2^24 is sampled for ever. */
  shards->threshold = threshold > 0 ? threshold : 1;
  shards->weight = (double)SHARDS_SCALE / shards->threshold;
}

static int add_reference(struct shards *shards, const struct waiting *reference) {
  uint32_t distance;
  const uint64_t hash = reference->hash;
  if (hash >> SAMPLE_HASH_SHIFT >= shards->threshold)
    return 0; /* the threshold was lowered meanwhile */
  const int error = sample_touch(&shards->sample, hash, &distance);
  if (error)
    return error;
  const uint32_t column =
      distance == REUSE_COLD
          ? shards->columns - 1
          : size_buckets_find(&shards->buckets, (uint64_t)(distance * shards->weight));
  const uint64_t group = hash % SHARDS_GROUPS;
  shards->sums[(group * ROWS + reference->row) * shards->columns + column] += shards->weight;
  shards->sampled++;
  if (shards->page_limit > 0 && shards->sample.count > shards->page_limit)
    lower(shards);
  return 0;
}

/* Handles the references that wait. */
static int add_waiting(struct shards *shards) {
  for (uint32_t i = 0; i < shards->waiting_count; i++)
    sample_prefetch(&shards->sample, shards->waiting[i].hash);
  for (uint32_t i = 0; i < shards->waiting_count; i++) {
    if (i + SOON < shards->waiting_count)
      sample_prefetch_slot(&shards->sample, shards->waiting[i + SOON].hash);
    const int error = add_reference(shards, &shards->waiting[i]);
    if (error)
      return error;
  }
  shards->waiting_count = 0;
  return 0;
}

/* Lets the sampled ones of the pages wait. */
static int add_pages(struct shards *shards) {
  uint32_t waiting = shards->waiting_count;
  for (uint32_t i = 0; i < shards->page_count; i++) {
    const uint64_t hash = hash_mix(shards->keys[i]);
    /* Written in any case, and overwritten if the page is not sampled: a branch would be missed. */
    shards->waiting[waiting] = (struct waiting){hash, shards->rows[i]};
    waiting += hash >> SAMPLE_HASH_SHIFT < shards->threshold;
  }
  shards->waiting_count = waiting;
  shards->page_count = 0;
  return waiting >= WAITING ? add_waiting(shards) : 0;
}

static int add_access(struct shards *shards, const struct page_access *access, uint32_t row) {
  const uint64_t key = (uint64_t)access->key + SALT;
  for (uint64_t done = 0; done < access->count; done += STEP) {
    const uint64_t left = access->count - done;
    const int error = shards->page_count > PAGES - STEP ? add_pages(shards) : 0;
    if (error)
      return error;
    for (uint32_t page = 0; page < STEP; page++) {
      shards->keys[shards->page_count + page] = key + done + page;
      shards->rows[shards->page_count + page] = (uint8_t)row;
    }
    shards->page_count += left < STEP ? (uint32_t)left : STEP;
  }
  return 0;
}

int tk_shards_add(struct shards *shards, const struct page_access *rows, uint64_t count) {
  int error = 0;
  for (uint64_t i = 0; i < count && error == 0; i++) {
    const struct page_access *access = &rows[i];
    const uint32_t row = access->role * 2u + (access->is_write != 0);
    if (access->role >= PAGE_ROLES)
      return -EINVAL;
    shards->references[row] += access->count;
    error = add_access(shards, access, row);
  }
  if (error == 0)
    error = add_pages(shards);
  return error ? error : add_waiting(shards);
}

void tk_shards_read(const struct shards *shards, double *sums, struct shards_totals *totals) {
  const size_t cells = (size_t)SHARDS_GROUPS * ROWS * shards->columns;
  memcpy(sums, shards->sums, cells * sizeof *sums);
  *totals = (struct shards_totals){
      .sampled = shards->sampled,
      .pages = shards->sample.count,
      .threshold = shards->threshold,
      .bytes = sizeof *shards + cells * sizeof *sums + sample_bytes(&shards->sample) +
               shards->columns * sizeof *shards->buckets.sizes,
  };
  memcpy(totals->references, shards->references, sizeof totals->references);
}

void tk_shards_free(struct shards *shards) {
  if (shards == NULL)
    return;
  sample_free(&shards->sample);
  size_buckets_free(&shards->buckets);
  free(shards->sums);
  free(shards);
}
