/* Checks the flow of a plan, so that its numbers can be used as they are. */
#ifndef TRACEKIT_PLAY_FLOW_PLAN_READ_H
#define TRACEKIT_PLAY_FLOW_PLAN_READ_H

#include "play/file_plan.h"

/* Lays the flow of `bytes` bytes out in a plan whose own parts are checked. Returns 0, or -EINVAL
 * after a line on stderr that names `path`. */
int flow_plan_read(struct file_plan *plan, const void *flow, uint64_t bytes, const char *path);

#endif
