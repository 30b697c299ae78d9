/* The sampled pages of SHARDS: a table from key to a small number, and a heap that gives up the
 * page with the largest hash first. */
#ifndef TRACEKIT_SIMULATE_SAMPLE_H
#define TRACEKIT_SIMULATE_SAMPLE_H

#include <stdint.h>

#define SAMPLE_NONE UINT32_MAX

struct sample_page {
  int64_t key;
  uint64_t hash;
};

struct sample {
  struct sample_page *pages; /* by number */
  uint32_t *heap;            /* `count` numbers, the largest hash first */
  uint32_t *free;            /* numbers that were given up, as a stack */
  uint32_t *table;           /* open addressing: number, or SAMPLE_NONE */
  uint32_t count;            /* pages held */
  uint32_t free_count;
  uint32_t capacity; /* numbers are below it; the table is twice to four times as long */
  uint32_t mask;     /* of the table */
};

/* Makes an empty sample. Returns 0 or -ENOMEM. */
int sample_init(struct sample *sample, uint32_t capacity);

/* Frees the tables; a zeroed `sample` is fine. */
void sample_free(struct sample *sample);

/* Returns the number of a page, or SAMPLE_NONE. */
uint32_t sample_find(const struct sample *sample, int64_t key, uint64_t hash);

/* Adds a page that is not held; count must be below capacity. Returns its number. */
uint32_t sample_add(struct sample *sample, int64_t key, uint64_t hash);

/* Returns the page with the largest hash; the sample is not empty. */
uint32_t sample_last(const struct sample *sample);

/* Gives that page up. */
void sample_drop_last(struct sample *sample);

/* Makes room for more pages; numbers stay. Returns 0, or -ENOMEM and nothing has changed. */
int sample_grow(struct sample *sample, uint32_t capacity);

/* Returns the bytes of the tables. */
uint64_t sample_bytes(const struct sample *sample);

#endif
