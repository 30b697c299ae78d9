/* What a file or device can do, found by trying it where nothing can be harmed. */
#ifndef TRACEKIT_PLAY_CAPABILITIES_H
#define TRACEKIT_PLAY_CAPABILITIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Finds whether discards (punch hole on a file, BLKDISCARD on a device) and zero range work at the
 * object behind `fd`. A file's abilities are tried on a nameless file in the same directory. */
void capabilities_find(int fd, bool *can_discard, bool *can_zero);

/* Writes the directory that holds `path`, "." where it names none. Returns 0 or -ENAMETOOLONG. */
int capabilities_folder_of(const char *path, char *folder, size_t size);

/* Opens a nameless file where a file `path` would be made. Returns its descriptor, which the caller
 * closes, or -errno; -EOPNOTSUPP or -EISDIR where the file system has no such files. */
int capabilities_scratch_file(const char *path);

/* Returns the alignment in bytes that O_DIRECT needs at the object behind `fd`, 0 when the file
 * system rejects it. */
uint32_t capabilities_direct_alignment(int fd);

/* Sets what the kernel itself says of that, for a regular file. Returns false when it does not. */
bool capabilities_known_alignment(int fd, uint32_t *align_bytes);

/* Returns whether the device, or the file system of the file, behind `fd` takes no writes; false
 * too where nobody can say. */
bool capabilities_is_read_only(int fd);

/* Returns whether the file behind `fd`, or with -1 one that would be made as `path`, can be mapped
 * with MAP_SYNC; true too where only a run can show it. It is mapped for a moment, and nothing of
 * it is touched. */
bool capabilities_map_sync(int fd, const char *path);

/* Returns whether the block device, or that of a file system, has queues whose completions are
 * looked for. `device` is its number; false too where the kernel does not report it. */
bool capabilities_polls(dev_t device);

#endif
