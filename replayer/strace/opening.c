/* Calls that open and close, and that lead descriptors elsewhere. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <string.h>

#include "strace/follow.h"
#include "strace/forms.h"

/* Returns the number of the file at an escaped path of strace, or -EINVAL when it is no path. */
static int32_t described_file(struct tk_calls *calls, struct view path) {
  char text[PATH_BYTES];
  int64_t length = view_unescape(path, text, sizeof(text));
  if (length <= 0 || text[0] != '/')
    return -EINVAL;
  return files_find(&calls->files, (struct view){text, (size_t)length});
}

int32_t read_file(struct step *step, bool has_folder) {
  char folder[PATH_BYTES];
  char text[PATH_BYTES];
  char path[PATH_BYTES];
  struct view from = {step->task->folder->path, step->task->folder->length};
  struct described at;
  if (has_folder) {
    if (!cursor_described(&step->at, &at))
      return -EINVAL;
    int64_t length = view_unescape(at.path, folder, sizeof(folder));
    if (length > 0)
      from = (struct view){folder, (size_t)length};
    cursor_skip(&step->at);
  }
  int64_t length = cursor_text(&step->at, text, sizeof(text));
  if (length < 0)
    return -EINVAL;
  cursor_skip(&step->at);
  length = paths_resolve(from, (struct view){text, (size_t)length}, path);
  return length < 0 ? -EINVAL
                    : files_find(&step->calls->files, (struct view){path, (size_t)length});
}

bool read_number(struct step *step, int64_t *out) {
  bool is_number = cursor_number(&step->at, out);
  cursor_skip(&step->at);
  return is_number;
}

/* Leads a descriptor to a handle, after what it led to before was closed unseen. */
static int lead(struct step *step, int64_t fd, int32_t handle, bool is_closed_by_exec) {
  struct step unseen = *step;
  unseen.end_ns = NOTHING;
  unseen.call.error = 0;
  int status = close_descriptor(&unseen, step->task->descriptors, fd);
  if (status)
    return status;
  struct slot slot = {handle + 1, is_closed_by_exec};
  status = descriptors_set(step->task->descriptors, &step->calls->handles, fd, slot);
  return status == -EBADF ? -EINVAL : status;
}

/* Makes a handle for a descriptor that the trace did not see opened. */
static int adopt(struct step *step, const struct described *described, int32_t *out) {
  int32_t file = described_file(step->calls, described->path);
  if (file < 0)
    return file == -EINVAL ? 0 : file;
  int32_t node = files_present(&step->calls->files, file);
  if (node < 0)
    return node;
  struct handle like = {.position = -1, .file = file, .node = node};
  *out = handles_new(&step->calls->handles, &like);
  step->calls->stats.adopted++;
  return *out < 0 ? *out : lead(step, described->fd, *out, false);
}

int read_handle(struct step *step, int32_t *out) {
  struct described described;
  *out = -1;
  if (!cursor_described(&step->at, &described))
    return -EINVAL;
  cursor_skip(&step->at);
  if (described.path.length && described.path.text[0] != '/')
    return 0;
  *out = descriptors_get(step->task->descriptors, described.fd);
  return *out >= 0 || !described.path.length ? 0 : adopt(step, &described, out);
}

int close_descriptor(const struct step *step, struct descriptors *descriptors, int64_t fd) {
  struct tk_calls *calls = step->calls;
  int32_t place = descriptors_get(descriptors, fd);
  if (place < 0)
    return 0;
  descriptors->slots[fd] = (struct slot){0};
  if (!handles_drop(&calls->handles, place))
    return 0;
  const struct handle *handle = &calls->handles.handles[place];
  struct tk_operation row = row_of(step, OP_CLOSE);
  row.file = handle->file;
  row.handle = handle->id;
  row.flags = handle->flags;
  return add_row(calls, row);
}

/* Returns whether an open with O_CREAT made the file, as far as it can be known. */
static bool is_made(struct tk_calls *calls, int32_t number, int64_t flags) {
  const struct file *file = &calls->files.files[number];
  if (file->node >= 0)
    return false;
  if (file->node == NODE_ABSENT || (flags & O_EXCL) || file->is_born)
    return true;
  /* It is gone, or the file system does not tell when it was made. */
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
  if (step->call.value < 0) {
    if (step->call.error == ENOENT && !(flags & O_CREAT))
      files_absent(&calls->files, number);
    return add_row(calls, row);
  }
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
  int status = lead(step, step->call.value, place, flags & O_CLOEXEC);
  return status ? status : add_row(calls, row);
}

int on_close(struct step *step) {
  struct described described;
  if (!cursor_described(&step->at, &described))
    return -EINVAL;
  if (step->call.error == EBADF)
    return 0;
  step->call.error = 0; /* whatever close complains of, the descriptor is gone */
  return close_descriptor(step, step->task->descriptors, described.fd);
}

int on_close_range(struct step *step) {
  int64_t first;
  int64_t last;
  int64_t flags;
  if (!read_number(step, &first) || !read_number(step, &last) || !read_number(step, &flags))
    return -EINVAL;
  struct descriptors *descriptors = step->task->descriptors;
  int status = 0;
  for (int64_t fd = first; fd <= last && fd < descriptors->capacity && !status; fd++) {
    if (step->call.value != 0 || fd < 0 || descriptors_get(descriptors, fd) < 0)
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
  return lead(step, step->call.value, place, flags & O_CLOEXEC);
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
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
    return lead(step, step->call.value, place, command == F_DUPFD_CLOEXEC);
  struct handle *handle = &step->calls->handles.handles[place];
  if (command == F_SETFD)
    step->task->descriptors->slots[from.fd].is_closed_by_exec = value & FD_CLOEXEC;
  if (command == F_SETFL)
    handle->flags = (handle->flags & FLAG_SYNC) | (row_flags(value) & (FLAG_DIRECT | FLAG_APPEND));
  return 0;
}
