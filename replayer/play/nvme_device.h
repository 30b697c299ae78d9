/* The namespace of an NVMe device by its generic character device, which takes commands as they
 * are: /dev/ng0n1 beside the block device /dev/nvme0n1. */
#ifndef TRACEKIT_PLAY_NVME_DEVICE_H
#define TRACEKIT_PLAY_NVME_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct nvme_device {
  int fd; /* of the generic character device */
  uint32_t namespace_id;
  uint32_t block_bytes;    /* of a logical block */
  uint64_t transfer_bytes; /* most of one command that moves data */
  uint64_t append_bytes;   /* most of one zone append; 0: none */
  uint64_t zeroes_bytes;   /* most of one command to zero; 0: it has none */
};

/* Opens the block device that has the same bytes as a generic character device, without access
 * (O_PATH), after comparing numbers. Returns its descriptor, which the caller closes, or -errno;
 * -ENOTTY for a character device of another kind. */
int nvme_device_block_of(dev_t generic);

/* Opens the generic character device of a whole block device. Close with nvme_device_close. Returns
 * 0 or -errno; -ENODEV when it is no namespace of an NVMe device, or has no such node. */
int nvme_device_open(struct nvme_device *device, dev_t block, bool may_write);

/* Closes what is open; fd -1 is fine. */
void nvme_device_close(struct nvme_device *device);

#endif
