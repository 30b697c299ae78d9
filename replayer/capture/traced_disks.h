/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 *
 * Which disks are traced, and whose a bio or a request is. */
#ifndef TRACEKIT_CAPTURE_TRACED_DISKS_H
#define TRACEKIT_CAPTURE_TRACED_DISKS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "kernel_types.h"

#define MOST_DISKS 1024
#define DRIVER_IN 34 /* REQ_OP_DRV_IN and _OUT: commands that are no block I/O */
#define DRIVER_OUT 35
#define OP_MASK 0xff

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, MOST_DISKS);
  __type(key, __u32);
  __type(value, __u8);
} disks SEC(".maps");

/* Gives the number of a disk that is traced, else 0, which is no disk's. */
static __always_inline __u32 number_of(struct gendisk *disk) {
  if (!disk)
    return 0;
  __u32 number = (__u32)disk->major << 20 | (__u32)disk->first_minor;
  return bpf_map_lookup_elem(&disks, &number) ? number : 0;
}

static __always_inline __u32 disk_of_bio(struct bio *bio) {
  struct block_device *device = bio->bi_bdev;
  return device ? number_of(device->bd_disk) : 0;
}

static __always_inline __u32 disk_of_request(struct request *request) {
  __u32 operation = request->cmd_flags & OP_MASK;
  if (operation == DRIVER_IN || operation == DRIVER_OUT)
    return 0;
  return number_of(request->q->disk);
}

#endif
