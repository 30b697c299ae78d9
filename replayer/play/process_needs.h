/* Whether the limits of this process and of its control groups let a run have what it needs: open
 * files, threads, memory. */
#ifndef TRACEKIT_PLAY_PROCESS_NEEDS_H
#define TRACEKIT_PLAY_PROCESS_NEEDS_H

#include "play/group_limits.h"
#include "play/preflight_note.h"

#define PROCESS_NEEDS_THREAD_BYTES                                                                 \
  UINT64_C(32768) /* of memory that a thread touches, the kernel's for it included */

/* Beside what the process has already, about. */
struct process_needs {
  uint64_t files;        /* descriptors that are open at once, with those that are */
  uint64_t threads;      /* beside this one */
  uint64_t locked_bytes; /* by io_uring */
  uint64_t mapped_bytes;
  uint64_t data_bytes; /* of these, what is its own */
  uint64_t used_bytes; /* of these, what it touches, and what is kept in memory for it */
};

/* What the groups allow; the notes point into it. */
struct process_groups {
  struct group_limit limits[GROUP_LIMIT_KINDS];
};

/* Raises the limit of open files as far as is needed and allowed, and adds what is less than is
 * needed to the notes of a run. */
void process_needs_check(const struct process_needs *needs, struct process_groups *groups,
                         struct preflight_note *notes);

#endif
