/* Asynchronous writes of a flow: a thread submits them, its writers perform them. Those of one
 * descriptor are performed one after the other, in their order. */
#ifndef TRACEKIT_PLAY_FLOW_WRITES_H
#define TRACEKIT_PLAY_FLOW_WRITES_H

#include "play/flow.h"

#define FLOW_WRITES_MAX 4096U /* of a thread, submitted and not ended */

/* Makes the queue of each thread that has writers. Returns 0 or -ENOMEM; end it with
 * flow_writes_close either way. */
int flow_writes_open(struct flow *flow);
void flow_writes_close(struct flow *flow);

/* Submits a write by a descriptor of the thread; where too many have not ended it waits. Returns
 * false when the run is over before. The thread itself, as the next three. */
bool flow_writes_submit(struct worker *worker, const struct file_record *record, uint32_t fd);

/* Waits until all writes by a descriptor have ended. Returns false when the run is over before. */
bool flow_writes_settle(struct worker *worker, uint32_t fd);

/* Waits for up to a second until half of the writes, at least one, have ended that were submitted
 * and that no wait before has taken, and takes all that have. Returns false when the run is over
 * before. */
bool flow_writes_wait(struct worker *worker);

/* No more will be submitted. */
void flow_writes_end(struct worker *worker);

/* Body of a writer: until its thread has ended and no write is left, or the run is over. */
void flow_writes_run(struct worker *worker);

/* Returns how many were submitted and not begun. After the run. */
uint64_t flow_writes_dropped(const struct flow *flow);

#endif
