/* Open file descriptions, and the tables of descriptors that lead to them. */
#ifndef TRACEKIT_STRACE_HANDLES_H
#define TRACEKIT_STRACE_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#define MOST_DESCRIPTORS (1 << 20) /* what Linux allows a process by default at the most */

/* One open file description: what dup and fork share. */
struct handle {
  int64_t id;
  int64_t position; /* of the next read or write, -1 when it is not known */
  int32_t file, node;
  int32_t flags;   /* enum operation_flag: direct, sync, append */
  uint32_t shares; /* descriptors that lead to it; 0: free */
};

struct slot {
  int32_t handle; /* + 1; 0: nothing that the trace follows */
  bool is_closed_by_exec;
};

/* Of one process, or of several that share it. */
struct descriptors {
  uint32_t users;
  int64_t capacity;
  struct slot *slots;
};

/* Embedded by its owner; all zero is a valid empty table. */
struct handles {
  struct handle *handles;
  int32_t *free;
  int32_t count, capacity, free_count;
  int64_t next_id;
};

/* Makes a handle that no descriptor leads to yet. Returns its place or -ENOMEM. */
int32_t handles_new(struct handles *handles, const struct handle *like);

/* Drops one share. Returns whether it was the last one: the handle is free then, its content is
 * there until the next handles_new. */
bool handles_drop(struct handles *handles, int32_t handle);

/* Returns the place of the handle behind a descriptor, or -1. */
int32_t descriptors_get(const struct descriptors *descriptors, int64_t fd);

/* Leads a descriptor that leads nowhere to a handle, which gets one more share.
 * Returns 0, -ENOMEM, -EBADF (no number of a descriptor). */
int descriptors_set(struct descriptors *descriptors, struct handles *handles, int64_t fd,
                    struct slot slot);

/* Makes an empty table, or a copy (fork), with one user. Returns NULL without memory. */
struct descriptors *descriptors_new(void);
struct descriptors *descriptors_copy(const struct descriptors *from, struct handles *handles);

void descriptors_free(struct descriptors *descriptors);
void handles_clear(struct handles *handles);

#endif
