/* The priority of I/O that a target's reads and writes have for the kernel's scheduler. */
#ifndef TRACEKIT_PLAY_PRIORITY_H
#define TRACEKIT_PLAY_PRIORITY_H

#include <stdint.h>

#include "play/target.h"

#define PRIORITY_TEXT_BYTES 8U

/* Gives targets the priorities asked for: "[LABEL=]CLASS[:LEVEL]", CLASS rt, be or idle, LEVEL 0
 * (first) to 7 or 4 when left out; without LABEL for those that have none of their own. Returns 0,
 * -EINVAL or -EPERM after a line on stderr: what the kernel does not grant is rejected here. */
int priority_assign(struct target *targets, uint32_t target_count, const char *const *asked,
                    uint32_t asked_count);

/* Writes "rt:0", "be:4", "idle", or "none" for 0. */
void priority_name(uint16_t priority, char text[PRIORITY_TEXT_BYTES]);

/* Gives the calling thread a priority; 0: that of its CPU time. Returns 0 or -errno. */
int priority_take(uint16_t priority);

#endif
