/* Records that wait for each other in a circle, so that none of them could ever begin. */
#ifndef TRACEKIT_PLAY_DEADLOCK_CHECK_H
#define TRACEKIT_PLAY_DEADLOCK_CHECK_H

#include <stdint.h>

#include "play/file_plan.h"

/* Lets the threads of a plan whose records are checked go on as far as their waits allow, without
 * doing anything. Returns 0 when all come to their end; else -ELOOP, with a record of a circle in
 * *record: one of another thread that it waits for waits for it in turn; or -ENOMEM. */
int deadlock_check(const struct file_plan *plan, uint32_t *record);

#endif
