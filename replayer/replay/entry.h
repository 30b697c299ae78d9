/* A request as submission entries of an io_uring. */
#ifndef TRACEKIT_REPLAY_ENTRY_H
#define TRACEKIT_REPLAY_ENTRY_H

#include "replay/port.h"

/* Returns whether the request moves data, which may take several transfers: a read, a write, or
 * zeroes where the target cannot make them itself. */
bool entry_transfers(const struct engine_config *config, const struct request *request);

/* Fills an entry with the request, from byte `done_bytes` of it on; a preflush is left out. There
 * must be room. user_data is the request's slot. */
void entry_fill(struct port *port, const struct request *request, uint64_t done_bytes);

/* Fills an entry with a flush of the request's target and returns it. */
struct io_uring_sqe *entry_fill_flush(struct port *port, const struct request *request);

/* Fills an entry with a discard by the device's own command. */
void entry_fill_discard_command(struct port *port, const struct request *request);

#endif
