#include "play/nvme_command.h"

#include <errno.h>
#include <stddef.h>

#define BLOCKS_MAX 65536U /* of a command */
#define STATUS_MASK 0x7FF

/* Opcodes and bits of NVM Command Set 1.0 and Zoned Namespace Command Set 1.1. */
enum { NVME_FLUSH, NVME_WRITE, NVME_READ, NVME_WRITE_ZEROES = 0x08, NVME_DATASET = 0x09 };
enum { NVME_ZONE_SEND = 0x79, NVME_ZONE_APPEND = 0x7D };
#define NVME_FUA (UINT32_C(1) << 30)
#define NVME_DEALLOCATE (UINT32_C(1) << 2)
#define NVME_ALL_ZONES (UINT32_C(1) << 8)

static uint64_t at_most(uint64_t value, uint64_t limit) { return value < limit ? value : limit; }

static void set_place(struct nvme_uring_cmd *command, const struct nvme_device *device,
                      uint64_t offset_bytes) {
  uint64_t block = offset_bytes / device->block_bytes;
  command->cdw10 = (uint32_t)block;
  command->cdw11 = (uint32_t)(block >> 32);
}

struct nvme_transfer nvme_command_transfer(const struct nvme_device *device,
                                           const struct buffers *buffers,
                                           const struct request *request) {
  struct nvme_transfer transfer = {.command.opcode = NVME_WRITE,
                                   .memory = buffers_pattern_at(buffers, request->offset_bytes),
                                   .most_bytes = device->transfer_bytes};
  if (request->operation == BLOCK_READ) {
    transfer.command.opcode = NVME_READ;
    transfer.memory = buffers->sink;
  } else if (request->operation == BLOCK_ZONE_APPEND) {
    transfer.command.opcode = NVME_ZONE_APPEND;
    transfer.most_bytes = device->append_bytes;
    transfer.keeps_place = true;
  } else if (request->operation == BLOCK_WRITE_ZEROES && device->zeroes_bytes > 0) {
    transfer.command.opcode = NVME_WRITE_ZEROES;
    transfer.memory = NULL;
    transfer.most_bytes = device->zeroes_bytes;
  } else if (request->operation == BLOCK_WRITE_ZEROES) {
    transfer.memory = buffers->zeroes;
    transfer.most_bytes = at_most(device->transfer_bytes, buffers->transfer_bytes);
    transfer.keeps_memory = true;
  }
  bool is_durable = (request->flags & BLOCK_FUA) != 0 && request->operation != BLOCK_READ;
  transfer.command.nsid = device->namespace_id;
  transfer.command.cdw12 = is_durable ? NVME_FUA : 0;
  uint64_t most = at_most(transfer.most_bytes, (uint64_t)BLOCKS_MAX * device->block_bytes);
  transfer.most_bytes = most - most % device->block_bytes;
  return transfer;
}

struct nvme_uring_cmd nvme_command_piece(const struct nvme_device *device,
                                         const struct nvme_transfer *transfer,
                                         const struct request *request, uint64_t done,
                                         uint64_t size) {
  struct nvme_uring_cmd command = transfer->command;
  set_place(&command, device, request->offset_bytes + (transfer->keeps_place ? 0 : done));
  command.cdw12 |= (uint32_t)(size / device->block_bytes - 1);
  if (transfer->memory == NULL)
    return command;
  command.addr = (uint64_t)(uintptr_t)(transfer->memory + (transfer->keeps_memory ? 0 : done));
  command.data_len = (uint32_t)size;
  return command;
}

struct nvme_uring_cmd nvme_command_flush(const struct nvme_device *device) {
  return (struct nvme_uring_cmd){.opcode = NVME_FLUSH, .nsid = device->namespace_id};
}

struct nvme_uring_cmd nvme_command_discard(const struct nvme_device *device,
                                           const struct request *request,
                                           struct nvme_range *range) {
  *range = (struct nvme_range){.blocks = (uint32_t)(request->length_bytes / device->block_bytes),
                               .first = request->offset_bytes / device->block_bytes};
  return (struct nvme_uring_cmd){.opcode = NVME_DATASET,
                                 .nsid = device->namespace_id,
                                 .addr = (uint64_t)(uintptr_t)range,
                                 .data_len = sizeof *range,
                                 .cdw11 = NVME_DEALLOCATE};
}

struct nvme_uring_cmd nvme_command_zone(const struct nvme_device *device,
                                        const struct request *request) {
  static const uint8_t actions[BLOCK_OPERATIONS] = {[BLOCK_ZONE_CLOSE] = 1,
                                                    [BLOCK_ZONE_FINISH] = 2,
                                                    [BLOCK_ZONE_OPEN] = 3,
                                                    [BLOCK_ZONE_RESET] = 4,
                                                    [BLOCK_ZONE_RESET_ALL] = 4};
  struct nvme_uring_cmd command = {
      .opcode = NVME_ZONE_SEND, .nsid = device->namespace_id, .cdw13 = actions[request->operation]};
  if (request->operation == BLOCK_ZONE_RESET_ALL)
    command.cdw13 |= NVME_ALL_ZONES;
  else
    set_place(&command, device, request->offset_bytes);
  return command;
}

/* Above 0 it is a status of the device: its type and its code. */
int32_t nvme_command_error(int32_t result) {
  if (result <= 0)
    return result;
  switch (result & STATUS_MASK) {
  case 0x01: /* invalid opcode, field, namespace */
  case 0x02:
  case 0x0B:
    return -EOPNOTSUPP;
  case 0x20: /* the namespace is write protected */
  case 0x182:
    return -EROFS;
  case 0x81: /* capacity exceeded */
    return -ENOSPC;
  case 0x280: /* write fault, unrecovered read error, access denied */
  case 0x281:
  case 0x286:
    return -ENODATA;
  case 0x1BD: /* too many active or open zones */
    return -EOVERFLOW;
  case 0x1BE:
    return -ETOOMANYREFS;
  default:
    return -EIO;
  }
}
