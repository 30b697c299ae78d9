/* Requests in flight that touch the same sectors, of which at least one writes: their order on the
 * device is not known. */
#ifndef TRACEKIT_PLAY_OVERLAP_H
#define TRACEKIT_PLAY_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

#include "play/block_plan.h"

enum overlap_policy {
  OVERLAP_ALLOW, /* count them */
  OVERLAP_ORDER, /* the later one waits until the earlier one is complete */
  OVERLAP_DROP,  /* the later one is left out */
};

extern const char *const overlap_words[]; /* in the order of the enum, ended by NULL */

struct overlap;

/* Makes an empty set for up to `depth` requests in flight. Free with overlap_close. NULL without
 * memory. */
struct overlap *overlap_open(uint32_t depth);

/* Whether a request in flight touches sectors of `record`, and one of the two writes. */
bool overlap_find(const struct overlap *overlap, const struct block_record *record);

/* The same, then adds the request of a slot, of which none is in the set. */
bool overlap_enter(struct overlap *overlap, uint32_t slot, const struct block_record *record);

/* Takes the request of a slot out again. */
void overlap_remove(struct overlap *overlap, uint32_t slot);

/* NULL is fine. */
void overlap_close(struct overlap *overlap);

#endif
