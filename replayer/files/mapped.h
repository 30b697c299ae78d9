/* Files in memory: map and touch, write back, unmap. */
#ifndef TRACEKIT_FILES_MAPPED_H
#define TRACEKIT_FILES_MAPPED_H

#include "files/handles.h"
#include "files/plan.h"

/* Maps the record's range of the file and touches each of its pages. A mapping that the handle has
 * already is unmapped. Returns the bytes touched or -errno: -EFAULT when the file ends before the
 * range does. Needs Linux 5.14 (-EINVAL before). */
int64_t mapped_touch(struct handles *handles, const struct plan_record *record, int fd);

/* Writes the handle's mapping back and waits. Returns 0 or -errno; -EBADF without a mapping. */
int64_t mapped_sync(struct handles *handles, uint32_t handle);

/* Unmaps the handle's mapping. Returns 0 or -errno; -EBADF without one. */
int64_t mapped_end(struct handles *handles, uint32_t handle);

#endif
