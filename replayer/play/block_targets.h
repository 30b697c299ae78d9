/* The targets of a plan of blocks, opened by the options. */
#ifndef TRACEKIT_PLAY_BLOCK_TARGETS_H
#define TRACEKIT_PLAY_BLOCK_TARGETS_H

#include "play/block_session.h"

/* Opens each target of the plan and gives it its device and priority. The caller closes the first
 * session->target_count, also after an error. Returns 0 or -errno after a line on stderr. */
int block_targets_open(struct block_session *session);

/* Repeats the checks of all targets as the last step before the first request: reading ahead and
 * calibration take time. Returns as block_targets_open. */
int block_targets_check_again(struct block_session *session);

/* Returns what the feed must know of target `index` to make requests fit. */
struct fit_target block_targets_fit(const struct block_session *session, uint32_t index);

/* Returns the bytes of the longest transfer, widened where transfers are. */
uint64_t block_targets_longest_transfer(const struct block_session *session);

#endif
