#include "replay/port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "replay/clock.h"
#include "replay/entry.h"

#define PROBE_WAIT_NS 1000000000U
#define ENTRIES_MIN 64U

static bool probe_operations(const struct uring *ring) {
  static const uint8_t needed[] = {IORING_OP_READ,        IORING_OP_WRITE, IORING_OP_READ_FIXED,
                                   IORING_OP_WRITE_FIXED, IORING_OP_FSYNC, IORING_OP_FALLOCATE};
  const unsigned limit = 256;
  struct io_uring_probe *probe = calloc(1, sizeof *probe + limit * sizeof *probe->ops);
  if (probe == NULL)
    return false;
  bool has_all = uring_register(ring, IORING_REGISTER_PROBE, probe, limit) >= 0;
  for (size_t i = 0; i < sizeof needed && has_all; i++)
    has_all =
        needed[i] < probe->ops_len && (probe->ops[needed[i]].flags & IO_URING_OP_SUPPORTED) != 0;
  free(probe);
  return has_all;
}

/* Waits for the result of the one entry that was filled; -ETIME when none comes. */
static int32_t result_of_probe(struct uring *ring) {
  const struct io_uring_cqe *cqe = NULL;
  uint64_t end_ns = clock_now_ns() + PROBE_WAIT_NS;
  int rc = 0;
  while (rc == 0 && cqe == NULL && clock_now_ns() < end_ns) {
    rc = uring_can_sleep(ring) ? uring_wait(ring, end_ns, 1) : uring_go(ring);
    cqe = uring_peek(ring);
  }
  if (rc != 0 || cqe == NULL)
    return rc != 0 ? rc : -ETIME;
  int32_t result = cqe->res;
  uring_seen(ring);
  return result;
}

/* A filter of system calls may allow rings and refuse the call that submits. */
static int probe_submission(struct port *port) {
  uring_next_sqe(&port->ring)->opcode = IORING_OP_NOP;
  return result_of_probe(&port->ring);
}

/* A discard of nothing is an error that tells apart who knows the command and who does not. */
static bool probe_discard(struct port *port) {
  for (uint32_t i = 0; i < port->config->target_count; i++) {
    const struct target *target = &port->config->targets[i];
    struct request nothing = {.target = (uint16_t)i, .operation = PLAN_DISCARD};
    if (target->kind != TARGET_DEVICE || !target->may_write)
      continue;
    entry_fill_discard_command(port, &nothing);
    return result_of_probe(&port->ring) == -EINVAL;
  }
  return false;
}

/* Whether the first sectors of each target can be read by polling. */
static int probe_polling(struct port *port) {
  for (uint32_t i = 0; i < port->config->target_count; i++) {
    struct request first = {.target = (uint16_t)i, .operation = PLAN_READ};
    first.length_bytes = port->config->targets[i].align_bytes;
    entry_fill(port, &first, 0);
    int32_t result = result_of_probe(&port->ring);
    if (result < 0)
      return result;
  }
  return 0;
}

static bool register_files(const struct port *port) {
  int descriptors[PLAN_TARGETS_MAX];
  for (uint32_t i = 0; i < port->config->target_count; i++)
    descriptors[i] = port->config->targets[i].fd;
  return uring_register(&port->ring, IORING_REGISTER_FILES, descriptors,
                        port->config->target_count) == 0;
}

static bool register_buffers(const struct port *port) {
  const struct buffers *buffers = port->config->buffers;
  struct iovec memory[PORT_BUFFERS] = {
      [PORT_PATTERN] = {buffers->pattern, BUFFERS_PERIOD_BYTES + buffers->transfer_bytes},
      [PORT_SINK] = {buffers->sink, buffers->transfer_bytes},
      [PORT_ZEROES] = {buffers->zeroes, buffers->transfer_bytes},
  };
  return uring_register(&port->ring, IORING_REGISTER_BUFFERS, memory, PORT_BUFFERS) == 0;
}

int port_open(struct port *port, const struct engine_config *config,
              const struct uring_modes *modes) {
  memset(port, 0, sizeof *port);
  port->config = config;
  int rc =
      uring_open(&port->ring, config->depth < ENTRIES_MIN ? ENTRIES_MIN : config->depth, modes);
  if (rc != 0) {
    port->ring.fd = -1;
    return rc;
  }
  if (!probe_operations(&port->ring))
    return -ENOSYS;
  port->has_files = register_files(port);
  port->has_buffers = register_buffers(port);
  if (modes->is_polled)
    return probe_polling(port);
  rc = probe_submission(port);
  port->has_discard = rc == 0 && probe_discard(port);
  return rc;
}

void port_close(struct port *port) {
  /* The kernel takes a ring apart after the program has ended. What is given back here is free at
   * once, so that the next run finds its target unused. */
  if (port->has_files)
    (void)uring_register(&port->ring, IORING_UNREGISTER_FILES, NULL, 0);
  port->has_files = false;
  uring_close(&port->ring);
}
