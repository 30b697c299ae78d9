#include "model/shards.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/page_sample.h"
#include "model/reuse.h"
#include "model/size_buckets.h"

#define FIRST_PAGES 4096u
#define ROWS (2u * PAGE_ROLES)
#define CUT_SHARE 8u /* a full sample gives up so much of its rate: rarely, and not much */
#define SOON 8u
#define PAGES 256u   /* pages that are hashed together */
#define STEP 8u      /* pages that are written at once: so many or fewer cost the same */
#define WAITING 128u /* sampled references that are handled together */

#define EMPTY UINT64_MAX
/* The lowest bits group pages and the highest decide about sampling, so those between find a place.
 */
#define PLACE_SHIFT 8
/* Four fifths full, the search for a page ends after 3 places on the average, for a new one after
 * 13, which are two lines of memory. */
#define FREE_SHARE 4u

/* The sampled pages of SHARDS and their stack distances: one open table by hash, in which a page
 * takes 12 bytes and a fifth of the places is free, beside 0.75 bytes of time slots a place. A page
 * is known by its hash alone, which is a bijection of its key. */
struct sample {
  uint64_t *hashes;   /* by place; all ones where no page is */
  struct reuse reuse; /* by place */
  uint32_t places;
  uint32_t most;  /* pages that the table is to hold */
  uint32_t count; /* pages held */
};

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

/* Frees the tables; a zeroed `sample` is fine. */
static void sample_free(struct sample *sample) {
  free(sample->hashes);
  reuse_free(&sample->reuse);
  *sample = (struct sample){0};
}

/* Makes an empty sample for `most` pages, at least 1. Returns 0 or -ENOMEM. */
static int sample_init(struct sample *sample, uint32_t most) {
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

/* Brings closer where a page will be looked for. */
static void sample_prefetch(const struct sample *sample, uint64_t hash) {
  const uint32_t home = home_of(sample, hash);
  __builtin_prefetch(&sample->hashes[home], 1);
  reuse_prefetch_slot(&sample->reuse, home);
}

/* When that has come: brings closer what is known of the page's last touch. */
static void sample_prefetch_slot(const struct sample *sample, uint64_t hash) {
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

/* Touches a page, which joins the sample if it is not there. *distance is set to the number of
 * other sampled pages touched since, or REUSE_COLD. Returns 0; -ENOMEM, and nothing has changed,
 * when the sample would have to grow and cannot. */
static int sample_touch(struct sample *sample, uint64_t hash, uint32_t *distance) {
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

/* Gives up all pages of which the highest 24 bits are not below `threshold`. */
static void sample_cut(struct sample *sample, uint32_t threshold) {
  for (uint32_t place = 0; place < sample->places; place++) {
    /* What comes from further on to close the gap may have to go as well. */
    while (sample->hashes[place] != EMPTY &&
           sample->hashes[place] >> PAGE_SAMPLE_SHIFT >= threshold) {
      reuse_forget(&sample->reuse, place);
      sample->count--;
      close_gap(sample, place);
    }
  }
  reuse_forgot(&sample->reuse);
}

/* Returns the bytes of the tables. */
static uint64_t sample_bytes(const struct sample *sample) {
  return sample->places * sizeof *sample->hashes + reuse_bytes(&sample->reuse);
}

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
  if (hash >> PAGE_SAMPLE_SHIFT >= shards->threshold)
    return 0; /* the threshold was lowered meanwhile */
  const int error = sample_touch(&shards->sample, hash, &distance);
  if (error)
    return error;

  /* Each sampled reference stands for `weight` of them, and its distance for so many times more
   * pages. */
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
    waiting += hash >> PAGE_SAMPLE_SHIFT < shards->threshold;
  }
  shards->waiting_count = waiting;
  shards->page_count = 0;
  return waiting >= WAITING ? add_waiting(shards) : 0;
}

static int add_access(struct shards *shards, const struct page_access *access, uint32_t row) {
  const uint64_t key = (uint64_t)access->key + PAGE_SAMPLE_SALT;
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
