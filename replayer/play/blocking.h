/* One request by blocking system calls. */
#ifndef TRACEKIT_PLAY_BLOCKING_H
#define TRACEKIT_PLAY_BLOCKING_H

#include "play/engine.h"

/* Notes where the zones of a target are written next, and turns an append, for which the kernel has
 * no call, into a write there. In the order of submission. */
void blocking_place(const struct target *target, struct request *request);

/* Runs the request to its end: flush before the data for PREFLUSH, a synchronous write for FUA.
 * What is read goes to `sink`, which no other thread may use meanwhile. Returns 0 or -errno;
 * -ENODATA when a read meets the end of the file. Any thread. */
int blocking_run(const struct target *target, const struct buffers *buffers, unsigned char *sink,
                 const struct request *request);

#endif
