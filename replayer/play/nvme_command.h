/* Requests as commands of NVMe. */
#ifndef TRACEKIT_PLAY_NVME_COMMAND_H
#define TRACEKIT_PLAY_NVME_COMMAND_H

#include <linux/nvme_ioctl.h>

#include "play/engine.h"
#include "play/nvme_device.h"

/* The one range of a discard; it must stay as it is until the command has completed. */
struct nvme_range {
  uint32_t attributes;
  uint32_t blocks;
  uint64_t first;
};

/* A request that covers blocks: as many commands as it needs. */
struct nvme_transfer {
  struct nvme_uring_cmd command; /* what they have in common */
  const unsigned char *memory;   /* of the data; NULL: there is none */
  uint64_t most_bytes;           /* of a command; 0: the device has no such commands */
  bool keeps_memory;             /* all of them have the same data */
  bool keeps_place;              /* appends: the device finds the place of each */
};

/* Returns what a read, a write, an append or write zeroes becomes. */
struct nvme_transfer nvme_command_transfer(const struct nvme_device *device,
                                           const struct buffers *buffers,
                                           const struct request *request);

/* Returns the command for `size` bytes of a request from byte `done` of it on. */
struct nvme_uring_cmd nvme_command_piece(const struct nvme_device *device,
                                         const struct nvme_transfer *transfer,
                                         const struct request *request, uint64_t done,
                                         uint64_t size);

/* Returns a flush, a discard, whose range is set, and an operation on zones. */
struct nvme_uring_cmd nvme_command_flush(const struct nvme_device *device);
struct nvme_uring_cmd nvme_command_discard(const struct nvme_device *device,
                                           const struct request *request, struct nvme_range *range);
struct nvme_uring_cmd nvme_command_zone(const struct nvme_device *device,
                                        const struct request *request);

/* Returns the errno that the block layer has for the result of a command. */
int32_t nvme_command_error(int32_t result);

#endif
