/* Rejects what somebody else uses: mounted, swap, behind a loop device, part of another device.
 * Decided by device and inode numbers, never by names. */
#ifndef TRACEKIT_PLAY_GUARD_H
#define TRACEKIT_PLAY_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

#define GUARD_REASON_BYTES 256

/* Checks a block device and everything that shares its bytes. Returns 0 when it is free, -EBUSY
 * with `why` when it is not or when that cannot be known. */
int guard_check_device(dev_t device, char why[GUARD_REASON_BYTES]);

/* Checks a regular file: not swap, not behind a loop device. Returns as above. */
int guard_check_file(dev_t device, ino_t inode, char why[GUARD_REASON_BYTES]);

/* Returns whether somebody else has the file open, where the file system can report it. `fd` must
 * be the only descriptor of it that this program holds. */
bool guard_file_is_open(int fd);

#endif
