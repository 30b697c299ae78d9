/* What the control group of this process, and those above it, let it have; of versions 1 and 2. */
#ifndef TRACEKIT_PLAY_GROUP_LIMITS_H
#define TRACEKIT_PLAY_GROUP_LIMITS_H

#include <limits.h>
#include <stdint.h>

enum group_limit_kind {
  GROUP_LIMIT_THREADS,    /* pids.max */
  GROUP_LIMIT_MEMORY,     /* memory.max or memory.limit_in_bytes: who passes it is killed */
  GROUP_LIMIT_MEMORY_HIGH /* memory.high: who passes it is slowed down */
};
#define GROUP_LIMIT_KINDS 3U

/* The limit of which the least is left. */
struct group_limit {
  uint64_t limit;      /* UINT64_MAX: there is none, as for `left` */
  uint64_t left;       /* what all in that group may still have; of memory with what the kernel can
                          take from files that it has read */
  char path[PATH_MAX]; /* file that sets it */
};

/* Finds a limit; a group whose files cannot be read has none. */
void group_limits_find(enum group_limit_kind kind, struct group_limit *found);

#endif
