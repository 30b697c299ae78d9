#include "play/uring_port.h"

#include <errno.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "play/clock.h"

/* Linux 6.12; older headers do not have it. */
#ifndef BLOCK_URING_CMD_DISCARD
#define BLOCK_URING_CMD_DISCARD _IO(0x12, 0)
#endif

bool uring_port_transfers(const struct engine_config *config, const struct request *request) {
  bool zeroes_by_hand =
      request->operation == BLOCK_WRITE_ZEROES && !config->targets[request->target].can_zero;
  return request->operation == BLOCK_READ || request->operation == BLOCK_WRITE || zeroes_by_hand;
}

static struct io_uring_sqe *next_sqe(struct uring_port *port, const struct request *request,
                                     uint8_t opcode) {
  struct io_uring_sqe *sqe = uring_next_sqe(&port->ring);
  sqe->opcode = opcode;
  sqe->user_data = request->slot;
  sqe->fd = port->has_files ? request->target : port->config->targets[request->target].fd;
  sqe->flags = port->has_files ? IOSQE_FIXED_FILE : 0;
  return sqe;
}

struct io_uring_sqe *uring_port_fill_flush(struct uring_port *port, const struct request *request) {
  struct io_uring_sqe *sqe = next_sqe(port, request, IORING_OP_FSYNC);
  sqe->fsync_flags = IORING_FSYNC_DATASYNC;
  return sqe;
}

/* The memory of a transfer that goes on at byte `offset` of the target. */
static const unsigned char *memory_of(const struct buffers *buffers, enum uring_port_buffer buffer,
                                      uint64_t offset) {
  switch (buffer) {
  case PORT_PATTERN:
    return buffers_pattern_at(buffers, offset);
  case PORT_SINK:
    return buffers->sink;
  case PORT_ZEROES:
  case PORT_BUFFERS:
    break;
  }
  return buffers->zeroes;
}

/* A transfer longer than the buffer is cut, and its rest is submitted when this part is done. */
static void fill_transfer(struct uring_port *port, const struct request *request,
                          uint64_t done_bytes) {
  const struct buffers *buffers = port->config->buffers;
  bool is_read = request->operation == BLOCK_READ;
  enum uring_port_buffer buffer = is_read                             ? PORT_SINK
                                  : request->operation == BLOCK_WRITE ? PORT_PATTERN
                                                                      : PORT_ZEROES;
  uint64_t offset = request->offset_bytes + done_bytes;
  uint64_t left = request->length_bytes - done_bytes;
  uint64_t limit = buffers->transfer_bytes;
  uint8_t plain = is_read ? IORING_OP_READ : IORING_OP_WRITE;
  uint8_t fixed = is_read ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
  struct io_uring_sqe *sqe = next_sqe(port, request, port->has_buffers ? fixed : plain);
  sqe->off = offset;
  sqe->len = (uint32_t)(left < limit ? left : limit);
  sqe->addr = (uint64_t)(uintptr_t)memory_of(buffers, buffer, offset);
  sqe->ioprio = port->config->targets[request->target].priority;
  sqe->buf_index = port->has_buffers ? (uint16_t)buffer : 0;
  sqe->rw_flags = (request->flags & BLOCK_FUA) != 0 && !is_read ? RWF_DSYNC : 0;
}

static void fill_allocate(struct uring_port *port, const struct request *request, int mode) {
  struct io_uring_sqe *sqe = next_sqe(port, request, IORING_OP_FALLOCATE);
  sqe->off = request->offset_bytes;
  sqe->addr = request->length_bytes;
  sqe->len = (uint32_t)(mode | FALLOC_FL_KEEP_SIZE);
}

void uring_port_fill_discard_command(struct uring_port *port, const struct request *request) {
  struct io_uring_sqe *sqe = next_sqe(port, request, IORING_OP_URING_CMD);
  sqe->cmd_op = BLOCK_URING_CMD_DISCARD;
  sqe->addr = request->offset_bytes;
  sqe->addr3 = request->length_bytes;
}

void uring_port_fill(struct uring_port *port, const struct request *request, uint64_t done_bytes) {
  bool is_device = port->config->targets[request->target].kind == TARGET_DEVICE;
  if (uring_port_transfers(port->config, request))
    fill_transfer(port, request, done_bytes);
  else if (request->operation == BLOCK_FLUSH)
    (void)uring_port_fill_flush(port, request);
  else if (request->operation != BLOCK_DISCARD)
    fill_allocate(port, request, FALLOC_FL_ZERO_RANGE);
  else if (is_device && port->has_discard)
    uring_port_fill_discard_command(port, request);
  else
    fill_allocate(port, request, FALLOC_FL_PUNCH_HOLE);
}

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

/* A filter of system calls may allow rings and reject the call that submits. */
static int probe_submission(struct uring_port *port) {
  uring_next_sqe(&port->ring)->opcode = IORING_OP_NOP;
  return result_of_probe(&port->ring);
}

/* A discard of nothing is an error that shows who knows the command and who does not. */
static bool probe_discard(struct uring_port *port) {
  for (uint32_t i = 0; i < port->config->target_count; i++) {
    const struct target *target = &port->config->targets[i];
    struct request nothing = {.target = (uint16_t)i, .operation = BLOCK_DISCARD};
    if (target->kind != TARGET_DEVICE || !target->may_write)
      continue;
    uring_port_fill_discard_command(port, &nothing);
    return result_of_probe(&port->ring) == -EINVAL;
  }
  return false;
}

/* Whether the first sectors of each target can be read by polling. */
static int probe_polling(struct uring_port *port) {
  for (uint32_t i = 0; i < port->config->target_count; i++) {
    struct request first = {.target = (uint16_t)i, .operation = BLOCK_READ};
    first.length_bytes = port->config->targets[i].align_bytes;
    uring_port_fill(port, &first, 0);
    int32_t result = result_of_probe(&port->ring);
    if (result < 0)
      return result;
  }
  return 0;
}

static bool register_files(const struct uring_port *port) {
  int descriptors[BLOCK_PLAN_TARGETS_MAX];
  for (uint32_t i = 0; i < port->config->target_count; i++)
    descriptors[i] = port->config->targets[i].fd;
  return uring_register(&port->ring, IORING_REGISTER_FILES, descriptors,
                        port->config->target_count) == 0;
}

static bool register_buffers(const struct uring_port *port) {
  const struct buffers *buffers = port->config->buffers;
  struct iovec memory[PORT_BUFFERS] = {
      [PORT_PATTERN] = {buffers->pattern, BUFFERS_PERIOD_BYTES + buffers->transfer_bytes},
      [PORT_SINK] = {buffers->sink, buffers->transfer_bytes},
      [PORT_ZEROES] = {buffers->zeroes, buffers->transfer_bytes},
  };
  return uring_register(&port->ring, IORING_REGISTER_BUFFERS, memory, PORT_BUFFERS) == 0;
}

int uring_port_open(struct uring_port *port, const struct engine_config *config,
                    const struct uring_modes *modes) {
  /* What is probed here is known before the first request, where a refusal would be a failed
   * request. */
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

void uring_port_close(struct uring_port *port) {
  /* The kernel takes a ring apart after the program has ended. What is given back here is free at
   * once, so that the next run finds its target unused. */
  if (port->has_files)
    (void)uring_register(&port->ring, IORING_UNREGISTER_FILES, NULL, 0);
  port->has_files = false;
  uring_close(&port->ring);
}
