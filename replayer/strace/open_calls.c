/* Calls that open and close, and that lead descriptors elsewhere. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <string.h>

#include "strace/call_table.h"

/* Returns whether an open with O_CREAT made the file, as far as it can be known. */
static bool is_made(struct tk_calls *calls, int32_t number, int64_t flags) {
  const struct file *file = &calls->files.files[number];
  if (file->node >= 0)
    return false;
  if (file->node == NODE_ABSENT || (flags & O_EXCL) || file->is_born)
    return true;
  /* It is gone, or the file system does not report when it was made. */
  bool is_guess = file->is_gone || (flags & O_TRUNC);
  calls->stats.guessed_creates += is_guess;
  return is_guess;
}

static int32_t row_flags(int64_t flags) {
  return (flags & O_DIRECT ? FLAG_DIRECT : 0) | (flags & O_DSYNC ? FLAG_SYNC : 0) |
         (flags & O_APPEND ? FLAG_APPEND : 0) | (flags & O_TRUNC ? FLAG_TRUNCATE : 0) |
         (flags & O_EXCL ? FLAG_EXCLUSIVE : 0);
}

/* Takes in that a file was opened; returns its node or -ENOMEM. */
static int32_t open_file(struct tk_calls *calls, int32_t number, int64_t flags, bool is_new) {
  int32_t node = is_new ? files_made(&calls->files, number) : files_present(&calls->files, number);
  if (node < 0)
    return node;
  struct file *file = &calls->files.files[number];
  if (file->kind == KIND_UNKNOWN)
    file->kind = flags & O_DIRECTORY ? KIND_DIRECTORY : KIND_FILE;
  if ((flags & O_TRUNC) && !is_new)
    node_cut(&calls->files, node, 0);
  return node;
}

static int read_flags(struct step *step, int64_t *flags) {
  *flags = O_WRONLY | O_CREAT | O_TRUNC;
  if (step->detail & FORM_CREAT)
    return 0;
  if ((step->detail & FORM_HOW) && !cursor_find(&step->at, "flags="))
    return -EINVAL;
  return cursor_number(&step->at, flags) ? 0 : -EINVAL;
}

int on_open(struct step *step) {
  struct tk_calls *calls = step->calls;
  int64_t flags;
  int32_t number = read_file(step, step->detail & FORM_AT);
  if (number < 0)
    return number;
  if (read_flags(step, &flags))
    return -EINVAL;
  struct tk_operation row = row_of(step, OP_OPEN);
  row.file = number;
  row.flags = row_flags(flags);

  /* A failed open says whether the file was there; its row has no handle. */
  if (step->call.value < 0) {
    if (step->call.error == ENOENT && !(flags & O_CREAT))
      files_absent(&calls->files, number);
    return add_row(calls, row);
  }

  /* strace shows where the descriptor really leads, behind symbolic links. */
  int32_t real = described_file(calls, step->call.path);
  number = real >= 0 ? real : number;
  bool is_new =
      (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) && is_made(calls, number, flags);
  int32_t node = open_file(calls, number, flags, is_new);
  if (node < 0)
    return node;
  struct handle like = {.file = number, .node = node};
  like.flags = row.flags & (FLAG_DIRECT | FLAG_SYNC | FLAG_APPEND);
  int32_t place = handles_new(&calls->handles, &like);
  if (place < 0)
    return place;
  row.operation = is_new ? OP_CREATE : OP_OPEN;
  row.file = number;
  row.handle = calls->handles.handles[place].id;
  int status = set_descriptor(step, step->call.value, place, flags & O_CLOEXEC);
  return status ? status : add_row(calls, row);
}

int on_close(struct step *step) {
  struct described described;
  if (!cursor_described(&step->at, &described))
    return -EINVAL;
  struct slot taken = step->task->closing;
  step->task->closing = (struct slot){0};
  if (step->call.error == EBADF && !taken.handle)
    return 0;
  step->call.error = 0; /* after any error of close the descriptor is gone */
  if (taken.handle)
    return drop_handle(step, taken.handle - 1);
  return close_descriptor(step, step->task->descriptors, described.fd);
}

int on_close_range(struct step *step) {
  int64_t first;
  int64_t last;
  int64_t flags;
  if (!read_number(step, &first) || !read_number(step, &last) || !read_number(step, &flags))
    return -EINVAL;

  /* Only descriptors of the table can be open: the range may end at UINT_MAX. */
  if (step->call.value != 0)
    return 0;
  int status = 0;
  if (flags & CLOSE_RANGE_UNSHARE)
    status = task_own_descriptors(step->task, &step->calls->handles);
  struct descriptors *descriptors = step->task->descriptors;
  for (int64_t fd = first < 0 ? 0 : first; fd <= last && fd < descriptors->capacity && !status;
       fd++) {
    if (descriptors_get(descriptors, fd) < 0)
      continue;
    if (flags & CLOSE_RANGE_CLOEXEC)
      descriptors->slots[fd].is_closed_by_exec = true;
    else
      status = close_descriptor(step, descriptors, fd);
  }
  return status;
}

int on_dup(struct step *step) {
  int32_t place;
  int64_t target;
  int64_t flags = 0;
  struct cursor first = step->at;
  struct described from;
  int status = read_handle(step, &place);
  if (status || !cursor_described(&first, &from))
    return status ? status : -EINVAL;
  if (step->detail == 3 && (!read_number(step, &target) || !read_number(step, &flags)))
    return -EINVAL;
  if (step->call.value < 0 || step->call.value == from.fd)
    return 0;
  if (place < 0)
    return close_descriptor(step, step->task->descriptors, step->call.value);
  return set_descriptor(step, step->call.value, place, flags & O_CLOEXEC);
}

int on_fcntl(struct step *step) {
  int32_t place;
  int64_t command;
  int64_t value = 0;
  struct cursor first = step->at;
  struct described from;
  int status = read_handle(step, &place);
  if (status || !cursor_described(&first, &from) || !read_number(step, &command))
    return status ? status : -EINVAL;
  cursor_number(&step->at, &value);
  if (place < 0 || step->call.value < 0)
    return 0;

  /* Commands that change what a descriptor leads to or how writes go; all others change nothing
   * here. */
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
    return set_descriptor(step, step->call.value, place, command == F_DUPFD_CLOEXEC);
  struct handle *handle = &step->calls->handles.handles[place];
  if (command == F_SETFD)
    step->task->descriptors->slots[from.fd].is_closed_by_exec = value & FD_CLOEXEC;
  if (command == F_SETFL)
    handle->flags = (handle->flags & FLAG_SYNC) | (row_flags(value) & (FLAG_DIRECT | FLAG_APPEND));
  return 0;
}
