/* The state of a trace that is being followed, and what all handlers of calls need: their arguments
 * as numbers, files and handles, and rows. */
#ifndef TRACEKIT_STRACE_STEP_H
#define TRACEKIT_STRACE_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/names.h"
#include "strace/calls.h"
#include "strace/files.h"
#include "strace/handles.h"
#include "strace/line.h"
#include "strace/tasks.h"
#include "strace/thread_parents.h"
#include "strace/window.h"

#define MOST_LEFT_OUT 64 /* different names of calls */

struct tk_calls {
  struct thread_parents parents;
  struct tasks tasks;
  struct handles handles;
  struct descriptors *inherited; /* of the command; NULL when it has begun */
  struct files files;
  struct names processes;
  struct names left_out;
  int64_t left_out_counts[MOST_LEFT_OUT];
  struct window window;
  struct tk_calls_stats stats;
  bool is_by_end; /* lines come in the order of their ends, and the times of the stats are known */
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
 * behind it, or one that nothing names, which is counted. Returns 0, -EINVAL, -ENOMEM. */
int read_handle(struct step *step, int32_t *out);

/* Reads a number and goes on behind it. Returns whether there was one. */
bool read_number(struct step *step, int64_t *out);

/* Returns the number of the file at an escaped path of strace, or -EINVAL when it is no path. */
int32_t described_file(struct tk_calls *calls, struct view path);

/* Sets what handle a descriptor leads to, after what else it led to was closed unseen. Returns 0,
 * -EINVAL for no number of a descriptor, -ENOMEM. */
int set_descriptor(struct step *step, int64_t fd, int32_t handle, bool is_closed_by_exec);

/* Takes away what a descriptor led to at the beginning of a close, for drop_handle at its end. */
void begin_close(struct task *task, int64_t fd);

/* Drops one share of a handle; the row of a close is made when it was the last one. `end_ns` may be
 * NOTHING. Returns 0 or -ENOMEM. */
int drop_handle(const struct step *step, int32_t place);

/* Takes a descriptor away; the row of a close is made when it was the last one of its handle.
 * `end_ns` may be NOTHING. Returns 0 or -ENOMEM. */
int close_descriptor(const struct step *step, struct descriptors *descriptors, int64_t fd);

#endif
