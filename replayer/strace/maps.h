/* Files mapped into an address space. */
#ifndef TRACEKIT_STRACE_MAPS_H
#define TRACEKIT_STRACE_MAPS_H

#include <stdint.h>

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

struct maps *maps_new(void);
struct maps *maps_copy(const struct maps *from);

/* Returns 0 or -ENOMEM. */
int maps_add(struct maps *maps, struct map map);

/* Takes one piece of a mapping that lies within [start, start + length) away and writes it to
 * `out`. Returns 1, 0 when there is none, -ENOMEM. */
int maps_cut(struct maps *maps, uint64_t start, uint64_t length, struct map *out);

/* Writes the part of a mapping at `start`, at most `length` long. Returns 1, or 0 when none. */
int maps_find(const struct maps *maps, uint64_t start, uint64_t length, struct map *out);

void maps_free(struct maps *maps);

#endif
