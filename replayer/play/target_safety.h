/* Whether a target may be used as asked: who else uses it, and what it holds. */
#ifndef TRACEKIT_PLAY_TARGET_SAFETY_H
#define TRACEKIT_PLAY_TARGET_SAFETY_H

#include "play/target.h"

/* Says what failed on the target; returns -error. */
int target_fail(const struct target *target, const char *what, int error);

/* Says why the target is refused; returns -error. */
int target_reject(const struct target *target, int error, const char *why);

/* Prepares the checks of a target whose object is known by its descriptor. Returns 0 or -errno
 * after a line on stderr. */
int target_safety_begin(struct target *target, const struct target_rules *rules);

/* Rejects a target that shares bytes with what is in use. Returns as target_open. */
int target_check_use(struct target *target);

/* Rejects a target to be written that another process may write to, or that holds what the user has
 * not named. Its object must be open. With `again` it will be checked once more before anything is
 * written, and looking at every process waits until then. Returns as target_open. */
int target_check_content(struct target *target, const struct target_rules *rules, bool again);

#endif
