/* An io_uring with what is registered in it, and what it was found to be able to do. */
#ifndef TRACEKIT_REPLAY_PORT_H
#define TRACEKIT_REPLAY_PORT_H

#include "replay/engine.h"
#include "replay/uring.h"

struct port {
  struct uring ring;                  /* fd is -1 when it is not open */
  const struct engine_config *config; /* borrowed */
  bool has_files;                     /* descriptors are registered */
  bool has_buffers;                   /* buffers are registered */
  bool has_discard;                   /* devices take discards by command */
};

enum port_buffer { PORT_PATTERN, PORT_SINK, PORT_ZEROES, PORT_BUFFERS };

/* Opens a ring for config->depth requests and tries what the kernel can do, without writing.
 * Close with port_close, also after a failure. Returns 0 or -errno; -ENOSYS or -EPERM when there is
 * no io_uring, -EINVAL when the kernel refuses the modes, -EOPNOTSUPP when a target cannot be
 * polled. */
int port_open(struct port *port, const struct engine_config *config,
              const struct uring_modes *modes);

/* Leaves nothing registered; a port that was never opened must have a ring.fd of -1. */
void port_close(struct port *port);

#endif
