/* Which thread made which, read before the trace is followed: a new thread's lines may come before
 * the result of the call that made it. */
#ifndef TRACEKIT_STRACE_THREAD_PARENTS_H
#define TRACEKIT_STRACE_THREAD_PARENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/idmap.h"
#include "strace/cursor.h"

struct thread_parent {
  uint32_t child, parent;
  uint64_t flags; /* of clone; 0 for fork and vfork */
  uint32_t next;  /* + 1: the next thread of this id; 0: none */
};

/* Embedded by its owner; all zero is a valid empty table. */
struct thread_parents {
  struct thread_parent *links;
  uint32_t count, capacity;
  struct idmap next;    /* thread id: + 1, its first entry that was not taken yet */
  struct idmap last;    /* thread id: + 1, its last entry */
  struct idmap pending; /* thread id: low bits of the flags of its unfinished call */
};

/* Notes the thread that a line makes, if it makes one. Returns 0 or -ENOMEM. */
int thread_parents_note(struct thread_parents *parents, struct view line);

/* Takes the next entry of a thread id. Returns NULL when there is none. */
const struct thread_parent *thread_parents_take(struct thread_parents *parents, uint32_t child);

void thread_parents_clear(struct thread_parents *parents);

#endif
