/* Which thread made which, looked up before the trace is followed: a new thread's lines may stand
 * before the result of the call that made it. */
#ifndef TRACEKIT_STRACE_BIRTHS_H
#define TRACEKIT_STRACE_BIRTHS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/idmap.h"
#include "strace/cursor.h"

struct birth {
  uint32_t child, parent;
  uint64_t flags; /* of clone; 0 for fork and vfork */
  uint32_t next;  /* + 1: the next thread of this id; 0: none */
};

/* Embedded by its owner; all zero is a valid empty table. */
struct births {
  struct birth *births;
  uint32_t count, capacity;
  struct idmap next;    /* thread id: + 1, its first birth that has not happened yet */
  struct idmap last;    /* thread id: + 1, its last birth */
  struct idmap pending; /* thread id: low bits of the flags of its unfinished call */
};

/* Takes notice of a line. Returns 0 or -ENOMEM. */
int births_note(struct births *births, struct view line);

/* Takes the next birth of a thread id. Returns NULL when there is none. */
const struct birth *births_take(struct births *births, uint32_t child);

void births_clear(struct births *births);

#endif
