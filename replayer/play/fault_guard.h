/* A target in memory: its pages are the device's own where the file system grants it. */
#ifndef TRACEKIT_PLAY_MAPPING_H
#define TRACEKIT_PLAY_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "play/target.h"

struct mapping {
  unsigned char *bytes;  /* NULL: not mapped */
  uint64_t length_bytes; /* of the target; what is mapped may be a little more */
  uint64_t mapped_bytes;
  bool is_synchronous; /* MAP_SYNC: stores that left the caches are durable */
  bool is_prefaulted;  /* no page is missing when the clock starts */
};

/* Maps the first `needed_bytes` of a target, with MAP_SYNC if the kernel grants it, and touches all
 * of its pages. A mapping without MAP_SYNC that does not fit into free memory is not touched
 * before. The caller closes it with mapping_close. Returns 0 or -errno. */
int mapping_open(struct mapping *mapping, const struct target *target, uint64_t needed_bytes);

void mapping_close(struct mapping *mapping);

/* Copies with `copy`; returns 0, or -EIO when a page cannot be had: a media error, or a file system
 * that is full. One thread at a time; the handler of SIGBUS must have been set by
 * mapping_guard_faults. */
int mapping_copy(void (*copy)(void *to, const void *from, size_t length), void *to,
                 const void *from, size_t length);

/* Makes faults inside of mapping_copy errors of it; others still end the program. Returns 0 or
 * -errno. */
int mapping_guard_faults(void);

#endif
