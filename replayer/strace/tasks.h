/* The threads of a trace: what each shares with others, and the call that it is in. */
#ifndef TRACEKIT_STRACE_TASKS_H
#define TRACEKIT_STRACE_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/idmap.h"
#include "strace/cursor.h"
#include "strace/handles.h"

/* A working directory, of one process or of several that share it. */
struct folder {
  uint32_t users;
  size_t length;
  char path[];
};

struct task {
  uint32_t tid, pid;
  bool is_used;
  int32_t process; /* index of its name, or -1 */
  struct descriptors *descriptors;
  struct folder *folder;
  struct maps *maps;
  struct slot closing; /* of a close whose first part was read: another thread may get its number */
  bool has_head, is_head_row; /* in a call whose first part was read; it may become a row */
  char *head;
  size_t head_length, head_capacity;
  int64_t head_ns;
};

/* Embedded by its owner; all zero is a valid empty table. */
struct tasks {
  struct task *tasks;
  uint32_t count, capacity;
  struct idmap places; /* thread id: + 1, its place in `tasks`; 0: ended */
};

/* Returns the thread, or NULL. Valid until the next tasks_new. */
struct task *tasks_find(const struct tasks *tasks, uint32_t tid);

/* Makes a thread with nothing of its own. Returns NULL without memory. */
struct task *tasks_new(struct tasks *tasks, uint32_t tid);

/* Makes the thread `tid` of the thread `parent`, which must be there, by the flags of clone.
 * Returns NULL without memory. */
struct task *tasks_clone(struct tasks *tasks, struct handles *handles, uint32_t parent,
                         uint32_t tid, uint64_t flags);

/* Give a thread what it shares with no other: a copy of the descriptors (exec, unshare), one of the
 * working directory (unshare), no mappings (exec). 0 or -ENOMEM. */
int task_own_descriptors(struct task *task, struct handles *handles);
int task_own_folder(struct task *task);
int task_own_maps(struct task *task);

/* Sets the working directory of the thread and of those that share it. 0 or -ENOMEM. */
int task_enter(struct tasks *tasks, struct task *task, struct view path);

/* Keeps the first part of a call. Returns 0 or -ENOMEM. */
int task_keep_head(struct task *task, struct view body, int64_t start_ns);

/* Adds the rest of the call to its first part. Returns 0 or -ENOMEM. */
int task_add_rest(struct task *task, struct view body);

/* Ends a thread. Returns the table of descriptors that nobody uses any more, which the caller
 * must free, or NULL. */
struct descriptors *tasks_end(struct tasks *tasks, struct task *task);

/* Returns the start of the oldest call that is not finished and may become a row, else `none`. */
int64_t tasks_oldest_head(const struct tasks *tasks, int64_t none);

void tasks_clear(struct tasks *tasks);

#endif
