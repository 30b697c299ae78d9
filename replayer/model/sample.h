/* The sampled pages of SHARDS and their stack distances: one open table by hash, in which a page
 * takes 12 bytes and a fifth of the places is free, beside 0.75 bytes of time slots a place. A page
 * is known by its hash alone, which is a bijection of its key. */
#ifndef TRACEKIT_MODEL_SAMPLE_H
#define TRACEKIT_MODEL_SAMPLE_H

#include <stdint.h>

#include "model/reuse.h"

#define SAMPLE_HASH_SHIFT 40 /* the highest 24 bits of a hash decide whether a page is sampled */

struct sample {
  uint64_t *hashes;   /* by place; all ones where no page is */
  struct reuse reuse; /* by place */
  uint32_t places;
  uint32_t most;  /* pages that the table is to hold */
  uint32_t count; /* pages held */
};

/* Makes an empty sample for `most` pages, at least 1. Returns 0 or -ENOMEM. */
int sample_init(struct sample *sample, uint32_t most);

/* Frees the tables; a zeroed `sample` is fine. */
void sample_free(struct sample *sample);

/* Brings closer where a page will be looked for. */
void sample_prefetch(const struct sample *sample, uint64_t hash);

/* When that has come: brings closer what is known of the page's last touch. */
void sample_prefetch_slot(const struct sample *sample, uint64_t hash);

/* Touches a page, which joins the sample if it is not there. *distance is set to the number of
 * other sampled pages touched since, or REUSE_COLD. Returns 0; -ENOMEM, and nothing has changed,
 * when the sample would have to grow and cannot. */
int sample_touch(struct sample *sample, uint64_t hash, uint32_t *distance);

/* Gives up all pages of which the highest 24 bits are not below `threshold`. */
void sample_cut(struct sample *sample, uint32_t threshold);

/* Returns the bytes of the tables. */
uint64_t sample_bytes(const struct sample *sample);

#endif
