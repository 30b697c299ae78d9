/* How a plan fits its targets, before the run. */
#ifndef TRACEKIT_REPLAY_RANGE_H
#define TRACEKIT_REPLAY_RANGE_H

#include "replay/session.h"

/* Counts the requests that lie beyond each target, and refuses them unless the options say what to
 * do. Returns 0 or -errno after a line on stderr; -ERANGE when there are some. */
int range_check(struct session *session);

/* Returns what the feed must know of target `index` to place requests. */
struct place_target range_place(const struct session *session, uint32_t index);

/* Returns the bytes of the longest transfer, widened where transfers are. */
uint64_t range_longest_transfer(const struct session *session);

#endif
