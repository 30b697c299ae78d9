/* Requests in flight by the sectors that they touch, in lists of cells. */
#ifndef TRACEKIT_PLAY_OVERLAP_LISTS_H
#define TRACEKIT_PLAY_OVERLAP_LISTS_H

#include <stdbool.h>
#include <stdint.h>

#include "play/block_plan.h"

/* Two requests overlap only if one of them writes. */
enum overlap_kind { OVERLAP_READS, OVERLAP_WRITES };
#define OVERLAP_KINDS 2U

static inline unsigned overlap_kind(uint8_t operation) {
  const unsigned reading = 1U << BLOCK_READ | 1U << BLOCK_FLUSH;
  return ~reading >> operation & 1U;
}

struct overlap_lists;

/* Makes empty lists for the requests of `depth` slots. Free with overlap_lists_close. NULL without
 * memory. */
struct overlap_lists *overlap_lists_open(uint32_t depth);

/* Whether a request in the lists touches sectors of `record`, which has some, and one of the two
 * writes. */
bool overlap_lists_find(const struct overlap_lists *lists, const struct block_record *record);

/* Adds the request of a slot, which has sectors; takes it out again. */
void overlap_lists_add(struct overlap_lists *lists, uint32_t slot,
                       const struct block_record *record);
void overlap_lists_remove(struct overlap_lists *lists, uint32_t slot);

/* NULL is fine. */
void overlap_lists_close(struct overlap_lists *lists);

#endif
