/* The state of a trace that is being followed, and what the calls have in common. */
#ifndef TRACEKIT_STRACE_FOLLOW_H
#define TRACEKIT_STRACE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/names.h"
#include "strace/births.h"
#include "strace/calls.h"
#include "strace/files.h"
#include "strace/handles.h"
#include "strace/line.h"
#include "strace/tasks.h"
#include "strace/window.h"

#define MOST_LEFT_OUT 64 /* different names of calls */

struct tk_calls {
  struct births births;
  struct tasks tasks;
  struct handles handles;
  struct descriptors *inherited; /* of the command; NULL when it has begun */
  struct files files;
  struct names processes;
  struct names left_out;
  int64_t left_out_counts[MOST_LEFT_OUT];
  struct window window;
  struct tk_calls_stats stats;
  char *folder, *below;
  char bad_line[TK_CALLS_TEXT];
};

/* One whole call, on its way through its handler. */
struct step {
  struct tk_calls *calls;
  struct task *task;
  struct view name;
  struct call call;
  struct cursor at;         /* the arguments that were not read yet */
  int64_t start_ns, end_ns; /* unix time; end_ns may be NOTHING */
  int32_t detail;           /* of the dispatch table */
};

/* Handles a call that returned. Returns 0 or -ENOMEM; -EINVAL when it cannot be understood. */
typedef int (*handler)(struct step *step);

struct known_call {
  const char *name;
  handler handle;
  int32_t detail;
  bool makes_rows;
};

/* Returns what is known of a call, or NULL. */
const struct known_call *known_call(struct view name);

/* Takes one line in. Returns 0 or -ENOMEM. */
int follow_line(struct tk_calls *calls, struct view text);

/* Returns a row of the call without file, place and bytes. */
struct tk_operation row_of(const struct step *step, enum operation operation);

/* Adds a row unless the filter leaves it out. Returns 0 or -ENOMEM. */
int add_row(struct tk_calls *calls, struct tk_operation row);

/* Counts a call that no row stands for. Returns 0 or -ENOMEM. */
int leave_out(struct tk_calls *calls, struct view name);

/* Reads a path argument, behind the descriptor of its folder if `has_folder`, and goes on behind
 * it. Returns the number of the file; -EINVAL when there is no path, -ENOMEM. */
int32_t read_file(struct step *step, bool has_folder);

/* Reads a descriptor and goes on behind it. Writes the place of the handle, or -1 when no file is
 * behind it. Returns 0, -EINVAL, -ENOMEM. */
int read_handle(struct step *step, int32_t *out);

/* Reads a number and goes on behind it. Returns whether there was one. */
bool read_number(struct step *step, int64_t *out);

/* Takes a descriptor away; the row of a close is made when it was the last one of its handle.
 * `end_ns` may be NOTHING. Returns 0 or -ENOMEM. */
int close_descriptor(const struct step *step, struct descriptors *descriptors, int64_t fd);

/* Handlers, by file. */
int on_open(struct step *step);
int on_close(struct step *step);
int on_close_range(struct step *step);
int on_dup(struct step *step);
int on_fcntl(struct step *step);
int on_transfer(struct step *step);
int on_copy(struct step *step);
int on_seek(struct step *step);
int on_sync(struct step *step);
int on_truncate(struct step *step);
int on_allocate(struct step *step);
int on_readdir(struct step *step);
int on_stat(struct step *step);
int on_two_names(struct step *step);
int on_remove(struct step *step);
int on_mkdir(struct step *step);
int on_symlink(struct step *step);
int on_map(struct step *step);
int on_unmap(struct step *step);
int on_clone(struct step *step);
int on_exec(struct step *step);
int on_chdir(struct step *step);
int on_name(struct step *step);

#endif
