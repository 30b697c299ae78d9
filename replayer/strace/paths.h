/* All paths of a trace, each once; its number is the file_id. */
#ifndef TRACEKIT_STRACE_PATHS_H
#define TRACEKIT_STRACE_PATHS_H

#include <stddef.h>
#include <stdint.h>

#include "strace/cursor.h"

#define PATH_BYTES 8192 /* two paths of the kernel's longest, one behind the other */

/* Embedded by its owner; all zero is a valid empty table. */
struct paths {
  char *text;      /* all paths one after the other */
  int64_t *ends;   /* end of each in `text`, bytes */
  uint32_t *slots; /* open addressing; number + 1, 0 is free */
  uint32_t count, capacity;
  uint32_t buckets; /* of `slots`, a power of two or 0 */
  size_t text_size; /* bytes allocated for `text` */
};

/* Returns the path's number, adding it when it is new; -ENOMEM on failure. */
int32_t paths_add(struct paths *paths, struct view path);

/* Returns a path; valid until the next is added. */
struct view paths_get(const struct paths *paths, int32_t number);

/* Writes `path` as an absolute one without `.`, `..` and double slashes: what is relative begins
 * at `folder`. Links are not followed. Returns its length, or -2 beyond PATH_BYTES. */
int64_t paths_resolve(struct view folder, struct view path, char out[PATH_BYTES]);

/* Returns whether `path` is `folder` or below it. */
int path_is_below(struct view path, struct view folder);

void paths_clear(struct paths *paths);

#endif
