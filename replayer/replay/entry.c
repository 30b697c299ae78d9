#include "replay/entry.h"

#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/uio.h>

/* Linux 6.12; older headers do not have it. */
#ifndef BLOCK_URING_CMD_DISCARD
#define BLOCK_URING_CMD_DISCARD _IO(0x12, 0)
#endif

bool entry_transfers(const struct engine_config *config, const struct request *request) {
  bool zeroes_by_hand =
      request->operation == PLAN_WRITE_ZEROES && !config->targets[request->target].can_zero;
  return request->operation == PLAN_READ || request->operation == PLAN_WRITE || zeroes_by_hand;
}

static struct io_uring_sqe *next_sqe(struct port *port, const struct request *request,
                                     uint8_t opcode) {
  struct io_uring_sqe *sqe = uring_next_sqe(&port->ring);
  sqe->opcode = opcode;
  sqe->user_data = request->slot;
  sqe->fd = port->has_files ? request->target : port->config->targets[request->target].fd;
  sqe->flags = port->has_files ? IOSQE_FIXED_FILE : 0;
  return sqe;
}

struct io_uring_sqe *entry_fill_flush(struct port *port, const struct request *request) {
  struct io_uring_sqe *sqe = next_sqe(port, request, IORING_OP_FSYNC);
  sqe->fsync_flags = IORING_FSYNC_DATASYNC;
  return sqe;
}

/* The memory of a transfer that goes on at byte `offset` of the target. */
static const unsigned char *memory_of(const struct buffers *buffers, enum port_buffer buffer,
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

static void fill_transfer(struct port *port, const struct request *request, uint64_t done_bytes) {
  const struct buffers *buffers = port->config->buffers;
  bool is_read = request->operation == PLAN_READ;
  enum port_buffer buffer = is_read                            ? PORT_SINK
                            : request->operation == PLAN_WRITE ? PORT_PATTERN
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
  sqe->rw_flags = (request->flags & PLAN_FUA) != 0 && !is_read ? RWF_DSYNC : 0;
}

static void fill_allocate(struct port *port, const struct request *request, int mode) {
  struct io_uring_sqe *sqe = next_sqe(port, request, IORING_OP_FALLOCATE);
  sqe->off = request->offset_bytes;
  sqe->addr = request->length_bytes;
  sqe->len = (uint32_t)(mode | FALLOC_FL_KEEP_SIZE);
}

void entry_fill_discard_command(struct port *port, const struct request *request) {
  struct io_uring_sqe *sqe = next_sqe(port, request, IORING_OP_URING_CMD);
  sqe->cmd_op = BLOCK_URING_CMD_DISCARD;
  sqe->addr = request->offset_bytes;
  sqe->addr3 = request->length_bytes;
}

void entry_fill(struct port *port, const struct request *request, uint64_t done_bytes) {
  bool is_device = port->config->targets[request->target].kind == TARGET_DEVICE;
  if (entry_transfers(port->config, request))
    fill_transfer(port, request, done_bytes);
  else if (request->operation == PLAN_FLUSH)
    (void)entry_fill_flush(port, request);
  else if (request->operation != PLAN_DISCARD)
    fill_allocate(port, request, FALLOC_FL_ZERO_RANGE);
  else if (is_device && port->has_discard)
    entry_fill_discard_command(port, request);
  else
    fill_allocate(port, request, FALLOC_FL_PUNCH_HOLE);
}
