/* What loop devices stand on, by the kernel's numbers and not by names. */
#ifndef TRACEKIT_PLAY_LOOP_DEVICE_H
#define TRACEKIT_PLAY_LOOP_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What is behind a loop device. */
struct loop_backing {
  bool is_device;        /* a block device; else a regular file */
  dev_t device;          /* its own number, or that of the file's file system */
  ino_t inode;           /* of the file */
  dev_t below_device;    /* of a file on an overlay: of the file below that has the same bytes */
  ino_t below_inode;     /* of that; 0: there is none */
  uint64_t born_ns;      /* when the file was made; 0 where nobody knows */
  uint64_t size_bytes;   /* of the file; 0 when it is not known */
  uint64_t offset_bytes; /* of the loop device's first byte */
  uint64_t limit_bytes;  /* of its bytes; 0: up to the end */
};

/* Returns whether the block device is one of the loop driver. */
bool loop_device_is(dev_t device);

/* Sets *backing. Returns 0, 1 when the device has nothing behind it, or -errno when that cannot be
 * known. */
int loop_device_look(dev_t device, struct loop_backing *backing);

#endif
