/* What flushes take in a placement of whole groups, and when groups move: flush_cost.h says what
 * they find on a device. A flush goes to the base device while its role has blocks there, and to
 * NVM while it has some there. */
#ifndef TRACEKIT_MODEL_BEST_FLUSH_H
#define TRACEKIT_MODEL_BEST_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "model/best_trace.h"

/* Lines are the base devices, one a traced device, and NVM: each an array by flush of the trace,
 * and one more for what comes after the last. */
struct best_flushes {
  const struct best_trace *trace;
  uint32_t *writes; /* requests with a part on the device between the flush before and this one */
  uint32_t *next;   /* the next flush that goes to the device; the number of flushes: none does */
  uint32_t *found;  /* what a flush that goes there finds: the writes since the last that did */
  bool goes[2][TK_ROLES]; /* flushes of the role to base, to NVM */
  int64_t ps;             /* of all flushes together */
};

/* Whether it matters on one of the devices what a flush finds. */
static inline bool best_has_empty(const struct tk_best_prices *prices) {
  return flush_has_empty(prices->flush_ps[0]) || flush_has_empty(prices->flush_ps[1]);
}

/* Makes room for what these prices need, if it is not there; all zeros at first. Returns 0 or
 * -ENOMEM; best_flushes_free always. */
int best_flushes_init(struct best_flushes *flushes, const struct best_trace *trace,
                      const struct tk_best_prices *prices);

/* Forgets all writes. */
void best_flushes_clear(struct best_flushes *flushes);

/* Adds (1) a request to those that left something to flush on base or NVM, or takes it off (-1). */
void best_flushes_count(struct best_flushes *flushes, const struct best_request *request,
                        bool is_nvm, int change);

/* Finds where flushes go with so many blocks of each role on NVM; all anew if it `is_new`. */
void best_flushes_direct(struct best_flushes *flushes, const int64_t role_on[TK_ROLES],
                         bool is_new);

/* Whether a request is to be counted at all. */
static inline bool best_flushes_counts(const struct best_trace *trace,
                                       const struct best_request *request) {
  return trace->has_empty &&
         flush_is_due_after(request->kind & BEST_WRITE, request->kind & BEST_FUA);
}

/* Frees what it holds. */
void best_flushes_free(struct best_flushes *flushes);

#endif
