/* Caches between a processor and its memory: accesses in, what reaches the memory out.
 *
 * Levels are sets of lines, each with the least recently used one as the next victim. The first
 * level is two caches of its size, of data and of instructions; all others hold both. Written lines
 * are written back when they are evicted: into the level below if it still has the line, which does
 * not make it younger there, else to the level after that, last to the memory. A missed line is
 * read into all levels, also to be written. So the misses are those of caches without dirty lines.
 */
#ifndef TRACEKIT_MODEL_MEMORY_CACHES_H
#define TRACEKIT_MODEL_MEMORY_CACHES_H

#include <stdint.h>

#include "common/export.h"
#include "common/memory_operation.h"

#define MEMORY_LEVELS_MOST 4
#define MEMORY_WAYS_MOST 64
#define MEMORY_KINDS MEMORY_OPERATION_END

struct memory_level {
  uint64_t sets;
  uint32_t ways; /* 1 to MEMORY_WAYS_MOST */
  uint32_t unused;
};

/* What goes to a memory: some bytes of one line, or of several where there are no caches. */
struct memory_access {
  uint64_t address;
  uint32_t bytes;
  uint32_t is_write;
};

struct memory_caches;

/* Makes empty caches of 0 to MEMORY_LEVELS_MOST levels. Returns 0, -EINVAL or -ENOMEM. */
TK_EXPORT int tk_memory_caches_new(const struct memory_level *levels, uint32_t count,
                                   uint32_t line_shift, struct memory_caches **out);

/* Takes accesses in their order until `capacity` is nearly full: `addresses`, `sizes` in bytes and
 * `operations` (enum tk_memory_operation) have `count` rows. Writes what goes to the memory, of
 * which `*written` is the number, and returns how many accesses were taken. Without levels that is
 * what loads and stores ask for. */
TK_EXPORT uint64_t tk_memory_caches_add(struct memory_caches *caches, const uint64_t *addresses,
                                        const int32_t *sizes, const uint8_t *operations,
                                        uint64_t count, struct memory_access *out,
                                        uint64_t capacity, uint64_t *written);

/* Writes levels + 1 rows of MEMORY_KINDS: accesses, then those of which a line missed in each
 * level. */
TK_EXPORT void tk_memory_caches_read(const struct memory_caches *caches, uint64_t *counts);

/* Returns how many lines that the last level or one above it holds are not written back. */
TK_EXPORT uint64_t tk_memory_caches_dirty(const struct memory_caches *caches);

/* Frees the caches; NULL is fine. */
TK_EXPORT void tk_memory_caches_free(struct memory_caches *caches);

#endif
