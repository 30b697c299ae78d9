/* Whole transfers: read, write and their short counts and interruptions; names that last. */
#ifndef TRACEKIT_PLAY_TRANSFER_H
#define TRACEKIT_PLAY_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether a call that has failed was interrupted and is to be made again: after the first
 * 1,000 times in a row, which `tries` counts from 0, it has failed. */
bool transfer_goes_on(uint32_t *tries);

/* Reads exactly `size` bytes at byte `offset`. Returns 0, -ENODATA at the end of the file, or
 * -errno. Any thread. */
int transfer_read(int fd, void *data, size_t size, uint64_t offset);

/* Writes exactly `size` bytes at byte `offset`; `flags` as in pwritev2(2). Returns 0 or -errno. */
int transfer_write(int fd, const void *data, size_t size, uint64_t offset, int flags);

/* Gives the file `part` the name `path`, in place of what had it, so that both outlast a power cut.
 * The file itself must be synchronized. Returns 0 or -errno. */
int transfer_rename(const char *part, const char *path);

#endif
