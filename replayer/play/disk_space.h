/* The space that a file can still get: free bytes, quotas, what it has already. */
#ifndef TRACEKIT_PLAY_DISK_SPACE_H
#define TRACEKIT_PLAY_DISK_SPACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "play/block_map.h"

struct disk_space {
  dev_t device;         /* of the file system */
  uint64_t free_bytes;  /* for this user; UINT64_MAX when there is no limit */
  uint64_t quota_bytes; /* left of the owner's quotas; UINT64_MAX without any */
  uint32_t block_bytes; /* what space is given out in, at least */
  bool is_memory;       /* its files are in memory: tmpfs, ramfs */
  bool has_holes;       /* false: a file has space for all of its length */
};

/* Asks for the space of the file, or for a new file in the folder, behind `fd`. Returns 0 or
 * -errno. */
int disk_space_of(int fd, struct disk_space *space);

/* Opens the file behind a loop device, or a partition of one, for reading, and sets where the
 * device begins in it. Returns its descriptor, which the caller closes, or -errno; -ENOTBLK for
 * what has no file behind it. */
int disk_space_behind_loop(dev_t device, uint64_t *offset_bytes);

/* Marks in `map` what `size_bytes` bytes from `offset_bytes` of a file have space for, and returns
 * how many bytes beside these were given to the file in advance. */
uint64_t disk_space_begin(int fd, uint64_t offset_bytes, uint64_t size_bytes,
                          struct block_map *map);

#endif
