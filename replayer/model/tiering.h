/* Static tiering: which traffic each tier gets when the extents of a trace are placed once, for any
 * number of mixes of tiers (Kim et al., FAST'14, section 4.1, Algorithm 1).
 *
 * The order of the extents is the same for all mixes, and while the same tiers have free space,
 * each extent's choice is, too. So sums over the order, one series for each tier of each set of
 * tiers with free space, give any mix in as many steps as there are tiers, each with a binary
 * search. */
#ifndef TRACEKIT_MODEL_TIERING_H
#define TRACEKIT_MODEL_TIERING_H

#include <stdint.h>

#include "common/export.h"
#include "model/tier_order.h"

/* Up to this many tiers mixes are looked up in sums; with more, each is a loop over extents. */
enum { TIERING_MAX_SUMMED = 4 };

/* What a tier gets in one mix. */
struct tk_tier_share {
  int64_t extents;
  int64_t reads; /* amount, in the unit of the traffic */
  int64_t writes;
};

struct tiering; /* opaque */

/* Ranks `extents` extents by their traffic, whose arrays must outlive the handle. The last tier is
 * the slowest. Returns 0, -EINVAL for impossible tiers, -ERANGE for a negative amount or a sum
 * beyond 64 bits, or -ENOMEM. */
TK_EXPORT int tk_tiering_new(const struct tk_tier *tiers, uint32_t tier_count, const int64_t *reads,
                             const int64_t *writes, uint32_t extents, struct tiering **out);

/* For each mix, reads tier_count - 1 capacities in extents from `places` (what the slowest tier
 * holds is the rest) and writes tier_count shares. Threads may share a handle. */
TK_EXPORT void tk_tiering_mixes(const struct tiering *tiering, const uint32_t *places,
                                uint64_t mixes, struct tk_tier_share *shares);

/* Places each extent for one mix by Algorithm 1 as it is written, and writes its tier's number. */
TK_EXPORT void tk_tiering_place(const struct tiering *tiering, const uint32_t *places,
                                uint8_t *tier_of);

/* Frees the handle; NULL is fine. */
TK_EXPORT void tk_tiering_free(struct tiering *tiering);

#endif
