/* An io_uring with what is registered in it, and what it was found to be able to do. */
#ifndef TRACEKIT_PLAY_URING_PORT_H
#define TRACEKIT_PLAY_URING_PORT_H

#include "play/engine.h"
#include "play/uring.h"

struct uring_port {
  struct uring ring;                  /* fd is -1 when it is not open */
  const struct engine_config *config; /* borrowed */
  bool has_files;                     /* descriptors are registered */
  bool has_buffers;                   /* buffers are registered */
  bool has_discard;                   /* devices take discards by command */
};

enum uring_port_buffer { PORT_PATTERN, PORT_SINK, PORT_ZEROES, PORT_BUFFERS };

/* Opens a ring for config->depth requests and tries what the kernel can do, without writing.
 * Close with uring_port_close, also after a failure. Returns 0 or -errno; -ENOSYS or -EPERM when
 * there is no io_uring, -EINVAL when the kernel rejects the modes, -EOPNOTSUPP when a target cannot
 * be polled. */
int uring_port_open(struct uring_port *port, const struct engine_config *config,
                    const struct uring_modes *modes);

/* Leaves nothing registered; a port that was never opened must have a ring.fd of -1. */
void uring_port_close(struct uring_port *port);

/* Returns whether the request moves data, which may take several transfers: a read, a write, or
 * zeroes where the target cannot make them itself. */
bool uring_port_transfers(const struct engine_config *config, const struct request *request);

/* Fills an entry with the request, from byte `done_bytes` of it on; a preflush is left out. There
 * must be space. user_data is the request's slot. */
void uring_port_fill(struct uring_port *port, const struct request *request, uint64_t done_bytes);

/* Fills an entry with a flush of the request's target and returns it. */
struct io_uring_sqe *uring_port_fill_flush(struct uring_port *port, const struct request *request);

/* Fills an entry with a discard by the device's own command. */
void uring_port_fill_discard_command(struct uring_port *port, const struct request *request);

#endif
