/* What processes have open: open file descriptions, the tables of descriptors that lead to them,
 * and the files that are mapped. */
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

/* Gives the place behind bytes of a file; the last one that there is where a damaged trace would
 * lead beyond it. */
static inline int64_t place_behind(int64_t offset_bytes, int64_t bytes) {
  int64_t end;
  return __builtin_add_overflow(offset_bytes, bytes, &end) ? INT64_MAX : end;
}

/* A part of a file in the address space of a process. */
struct map {
  uint64_t start, length;
  int64_t offset_bytes; /* in the file */
  int32_t file;
};

/* Of one process, or of several threads that share it. */
struct maps {
  uint32_t users;
  uint32_t count, capacity;
  struct map *maps;
};

/* Makes an empty list, or a copy (fork), with one user. Returns NULL without memory. */
struct maps *maps_new(void);
struct maps *maps_copy(const struct maps *from);

/* Adds a mapping. Returns 0 or -ENOMEM. */
int maps_add(struct maps *maps, struct map map);

/* Takes one piece of a mapping that lies within [start, start + length) away and writes it to
 * `out`. Returns 1, 0 when there is none, -ENOMEM. */
int maps_cut(struct maps *maps, uint64_t start, uint64_t length, struct map *out);

/* Writes the part of a mapping at `start`, at most `length` long. Returns 1, or 0 when none. */
int maps_find(const struct maps *maps, uint64_t start, uint64_t length, struct map *out);

void maps_free(struct maps *maps);

#endif
