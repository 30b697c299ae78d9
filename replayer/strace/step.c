#include "strace/step.h"

#include <errno.h>
#include <string.h>

struct tk_operation row_of(const struct step *step, enum operation operation) {
  int64_t base_ns = step->calls->stats.base_ns;
  return (struct tk_operation){
      .start_ns = step->start_ns - base_ns,
      .end_ns = step->end_ns == NOTHING ? NOTHING : step->end_ns - base_ns,
      .file = NOTHING,
      .other_file = NOTHING,
      .handle = NOTHING,
      .offset_bytes = NOTHING,
      .length_bytes = NOTHING,
      .done_bytes = NOTHING,
      .process = step->task->process,
      .pid = (int32_t)step->task->pid,
      .tid = (int32_t)step->task->tid,
      .error = step->call.error,
      .operation = (int32_t)operation,
  };
}

static bool is_kept(const struct tk_calls *calls, int64_t file) {
  struct view below = {calls->below, strlen(calls->below)};
  return file >= 0 && path_is_below(paths_get(&calls->files.paths, (int32_t)file), below);
}

int add_row(struct tk_calls *calls, struct tk_operation row) {
  bool is_of_all = row.operation == OP_SYNC && row.file < 0;
  if (calls->below && !is_of_all && !is_kept(calls, row.file) && !is_kept(calls, row.other_file)) {
    calls->stats.filtered++;
    return 0;
  }
  if (row.file >= 0)
    calls->files.files[row.file].is_used = true;
  if (row.other_file >= 0)
    calls->files.files[row.other_file].is_used = true;
  bool is_transfer = row.operation == OP_READ || row.operation == OP_WRITE;
  calls->stats.unplaced += is_transfer && row.offset_bytes < 0 && row.error == 0;
  calls->stats.rows++;
  return window_add(&calls->window, &row);
}

int leave_out(struct tk_calls *calls, struct view name) {
  int32_t place = names_add(&calls->left_out, name.text, name.length);
  if (place < 0)
    return -ENOMEM;
  calls->stats.left_out++;
  if (place < MOST_LEFT_OUT)
    calls->left_out_counts[place]++;
  return 0;
}

int32_t described_file(struct tk_calls *calls, struct view path) {
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

  /* strace -y shows the path of the folder's descriptor; without one the path is relative to the
   * working directory. */
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

void begin_close(struct task *task, int64_t fd) {
  if (descriptors_get(task->descriptors, fd) < 0)
    return;
  task->closing = task->descriptors->slots[fd];
  task->descriptors->slots[fd] = (struct slot){0};
}

int drop_handle(const struct step *step, int32_t place) {
  struct tk_calls *calls = step->calls;
  if (!handles_drop(&calls->handles, place))
    return 0;
  const struct handle *handle = &calls->handles.handles[place];
  struct tk_operation row = row_of(step, OP_CLOSE);
  row.file = handle->file;
  row.handle = handle->id;
  row.flags = handle->flags;
  return add_row(calls, row);
}

int close_descriptor(const struct step *step, struct descriptors *descriptors, int64_t fd) {
  int32_t place = descriptors_get(descriptors, fd);
  if (place < 0)
    return 0;
  descriptors->slots[fd] = (struct slot){0};
  return drop_handle(step, place);
}

int set_descriptor(struct step *step, int64_t fd, int32_t handle, bool is_closed_by_exec) {
  struct descriptors *descriptors = step->task->descriptors;
  if (descriptors_get(descriptors, fd) == handle) {
    descriptors->slots[fd].is_closed_by_exec = is_closed_by_exec;
    return 0;
  }
  struct step unseen = *step;
  unseen.end_ns = NOTHING;
  unseen.call.error = 0;
  int status = close_descriptor(&unseen, descriptors, fd);
  if (status)
    return status;
  struct slot slot = {handle + 1, is_closed_by_exec};
  status = descriptors_set(descriptors, &step->calls->handles, fd, slot);
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
  return *out < 0 ? *out : set_descriptor(step, described->fd, *out, false);
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
  if (*out >= 0)
    return 0;
  if (described.path.length)
    return adopt(step, &described, out);
  step->calls->stats.unnamed += described.fd >= 0 && step->call.error != EBADF;
  return 0;
}
