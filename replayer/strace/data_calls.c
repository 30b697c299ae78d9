/* Calls that move bytes, seek, sync, cut and reserve. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "strace/call_table.h"

static bool is_plain_file(const struct tk_calls *calls, const struct handle *handle) {
  return calls->files.files[handle->file].kind == KIND_FILE;
}

static struct tk_operation row_of_handle(const struct step *step, enum operation operation,
                                         const struct handle *handle) {
  struct tk_operation row = row_of(step, operation);
  row.file = handle->file;
  row.handle = handle->id;
  row.flags = handle->flags;
  return row;
}

/* Learns the file's size from a read: a short one met the end. */
static void note_read(struct tk_calls *calls, const struct handle *handle,
                      const struct tk_operation *row) {
  struct node *node = &calls->files.nodes[handle->node];
  int64_t end = place_behind(row->offset_bytes, row->done_bytes);
  if (row->offset_bytes < 0 || !is_plain_file(calls, handle))
    return;
  if (!node->is_changed && end > node->read_to && row->done_bytes > 0)
    node->read_to = end;
  bool is_short = row->length_bytes > row->done_bytes;
  bool is_exact = row->done_bytes > 0 || end == 0 || end == node->read_to;
  if (is_short && is_exact && node->bytes < 0)
    node_set_size(&calls->files, handle->node, end, EVIDENCE_END);
}

static void note_write(struct tk_calls *calls, const struct handle *handle,
                       const struct tk_operation *row) {
  struct node *node = &calls->files.nodes[handle->node];
  if (row->done_bytes <= 0)
    return;
  if (row->offset_bytes >= 0)
    node_written(&calls->files, handle->node, place_behind(row->offset_bytes, row->done_bytes));
  else
    node->is_changed = true;
  if (row->offset_bytes < 0 && (row->flags & FLAG_APPEND))
    node->appended = place_behind(node->appended, row->done_bytes);
}

/* Makes the row of a transfer by a handle; `offset` is NOTHING for its own position. */
static int transfer(struct step *step, struct handle *handle, bool is_write, int64_t offset,
                    struct tk_operation row) {
  struct tk_calls *calls = step->calls;
  bool is_own = offset == NOTHING;
  if (is_write && (row.flags & FLAG_APPEND))
    row.offset_bytes = calls->files.nodes[handle->node].bytes;
  else
    row.offset_bytes = is_own ? handle->position : offset;
  if (row.error == 0) {
    if (is_write)
      note_write(calls, handle, &row);
    else
      note_read(calls, handle, &row);
    if (is_own)
      handle->position =
          row.offset_bytes < 0 ? NOTHING : place_behind(row.offset_bytes, row.done_bytes);
  } else {
    row.done_bytes = NOTHING;
  }
  return add_row(calls, row);
}

int on_transfer(struct step *step) {
  int32_t place;
  int64_t length = NOTHING;
  int64_t offset = NOTHING;
  int64_t flags = 0;
  int64_t parts;
  bool is_vector = step->detail & FORM_VECTOR;
  int status = read_handle(step, &place);
  if (status || place < 0)
    return status;

  /* The buffer is skipped; the lengths of a vector's parts are not known, only their number. */
  cursor_skip(&step->at);
  if (!read_number(step, is_vector ? &parts : &length))
    return -EINVAL;
  if ((step->detail & FORM_PLACED) && !read_number(step, &offset))
    return -EINVAL;
  cursor_number(&step->at, &flags);
  bool is_write = step->detail & FORM_WRITE;
  struct handle *handle = &step->calls->handles.handles[place];
  struct tk_operation row = row_of_handle(step, is_write ? OP_WRITE : OP_READ, handle);
  row.flags |=
      (flags & (RWF_DSYNC | RWF_SYNC) ? FLAG_SYNC : 0) | (flags & RWF_APPEND ? FLAG_APPEND : 0);
  row.length_bytes = length;
  row.done_bytes = step->call.value;
  return transfer(step, handle, is_write, offset < 0 ? NOTHING : offset, row);
}

/* Reads `[before] => [after]` or NULL. */
static void read_place(struct step *step, int64_t *out) {
  *out = NOTHING;
  if (step->at.at < step->at.end && *step->at.at == '[') {
    step->at.at++;
    cursor_number(&step->at, out);
    cursor_skip(&step->at); /* to the bracket, at which it stands still */
    step->at.at += step->at.at < step->at.end;
  }
  cursor_skip(&step->at);
}

/* Makes the rows of a copy: the read takes its time, the write is a part of it. */
static int copy(struct step *step, const int32_t places[2], const int64_t offsets[2],
                int64_t length) {
  for (int side = 0; side < 2; side++) {
    if (places[side] < 0)
      continue;
    bool is_write = side == 1;
    struct handle *handle = &step->calls->handles.handles[places[side]];
    struct tk_operation row = row_of_handle(step, is_write ? OP_WRITE : OP_READ, handle);
    if (is_write && places[0] >= 0)
      row.end_ns = NOTHING;
    row.length_bytes = is_write && step->call.error == 0 ? step->call.value : length;
    row.done_bytes = step->call.value;
    int status = transfer(step, handle, is_write, offsets[side], row);
    if (status)
      return status;
  }
  return 0;
}

int on_copy(struct step *step) {
  int32_t places[2];
  int64_t offsets[2] = {NOTHING, NOTHING};
  int64_t length;
  int status;

  /* sendfile names the target first and has one offset, the others name the source first. */
  if (step->detail & FORM_SEND) {
    status = read_handle(step, &places[1]);
    status = status ? status : read_handle(step, &places[0]);
    read_place(step, &offsets[0]);
  } else {
    status = read_handle(step, &places[0]);
    read_place(step, &offsets[0]);
    status = status ? status : read_handle(step, &places[1]);
    read_place(step, &offsets[1]);
  }
  if (status)
    return status;
  return read_number(step, &length) ? copy(step, places, offsets, length) : -EINVAL;
}

/* Reads source and places of FICLONERANGE. */
static int read_range(struct step *step, int32_t *source, int64_t offsets[2], int64_t *length) {
  if (!cursor_find(&step->at, "src_fd="))
    return step->call.error ? -ENOENT : -EINVAL;
  int status = read_handle(step, source);
  bool is_whole = cursor_find(&step->at, "src_offset=") && read_number(step, &offsets[0]) &&
                  cursor_find(&step->at, "src_length=") && read_number(step, length) &&
                  cursor_find(&step->at, "dest_offset=") && read_number(step, &offsets[1]);
  return status ? status : is_whole ? 0 : -EINVAL;
}

/* A clone is a copy whose bytes are shared: it has the rows of a copy, and is counted. */
static int clone_range(struct step *step, int32_t target, bool is_range) {
  struct tk_calls *calls = step->calls;
  int32_t places[2] = {-1, target};
  int64_t offsets[2] = {0, 0};
  int64_t length = 0;
  int status =
      is_range ? read_range(step, &places[0], offsets, &length) : read_handle(step, &places[0]);
  if (status)
    return status == -ENOENT ? 0 : status; /* the structure could not be read */

  /* A length of 0 is as much as the source has. */
  int32_t source = places[0] < 0 ? -1 : calls->handles.handles[places[0]].node;
  if (length == 0 && source >= 0 && offsets[0] >= 0 &&
      calls->files.nodes[source].bytes >= offsets[0])
    length = calls->files.nodes[source].bytes - offsets[0];
  else if (length == 0)
    length = NOTHING;
  if (step->call.error == 0) {
    struct node *node = &calls->files.nodes[calls->handles.handles[target].node];
    node->is_changed = true;
    node->bytes = length == NOTHING ? -1 : node->bytes;
    step->call.value = length;
    calls->stats.cloned++;
  }
  return copy(step, places, offsets, length);
}

/* Requests that change files and have no row, for want of a place for what they do. */
static const struct {
  int64_t number;
  const char *name;
} counted[] = {
    {FIDEDUPERANGE, "ioctl FIDEDUPERANGE"},
    {FS_IOC_SETFLAGS, "ioctl FS_IOC_SETFLAGS"},
    {FS_IOC_FSSETXATTR, "ioctl FS_IOC_FSSETXATTR"},
};

int on_ioctl(struct step *step) {
  int32_t place;
  int64_t request;
  struct cursor first = step->at;
  struct described of;
  int status = read_handle(step, &place);
  if (status || place < 0)
    return status;
  if (!cursor_described(&first, &of))
    return -EINVAL;
  if (!read_number(step, &request))
    return -EINVAL;
  if (request == FICLONE || request == FICLONERANGE)
    return clone_range(step, place, request == FICLONERANGE);
  if ((request == FIOCLEX || request == FIONCLEX) && step->call.value == 0)
    step->task->descriptors->slots[of.fd].is_closed_by_exec = request == FIOCLEX;
  for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
    if (request == counted[i].number)
      return leave_out(step->calls, (struct view){counted[i].name, strlen(counted[i].name)});
  return 0;
}

/* The file's size is how far the end was from where the call has led to. */
static void note_end(const struct step *step, int32_t node, int64_t distance) {
  int64_t bytes;
  if (!__builtin_sub_overflow(step->call.value, distance, &bytes) && bytes >= 0)
    node_set_size(&step->calls->files, node, bytes, EVIDENCE_SEEK);
}

int on_seek(struct step *step) {
  int32_t place;
  int64_t distance;
  int64_t whence;
  int status = read_handle(step, &place);
  if (status || place < 0 || step->call.value < 0)
    return status;
  if (!read_number(step, &distance) || !read_number(step, &whence))
    return -EINVAL;
  struct handle *handle = &step->calls->handles.handles[place];
  handle->position = step->call.value;
  if (whence == SEEK_END && is_plain_file(step->calls, handle))
    note_end(step, handle->node, distance);
  return 0;
}

int on_sync(struct step *step) {
  int32_t place = -1;
  struct tk_operation row = row_of(step, (enum operation)step->detail);
  if (step->at.at == step->at.end)
    return add_row(step->calls, row); /* sync() */
  int status = read_handle(step, &place);
  if (status || place < 0)
    return status;
  const struct handle *handle = &step->calls->handles.handles[place];
  row = row_of_handle(step, (enum operation)step->detail, handle);
  if (step->detail == OP_SYNC_FILE_RANGE &&
      (!read_number(step, &row.offset_bytes) || !read_number(step, &row.length_bytes)))
    return -EINVAL;
  return add_row(step->calls, row);
}

int on_truncate(struct step *step) {
  int32_t place = -1;
  int32_t node = -1;
  struct tk_operation row = row_of(step, OP_TRUNCATE);

  /* ftruncate names the file by its descriptor. */
  if (step->detail & FORM_HANDLE) {
    int status = read_handle(step, &place);
    if (status || place < 0)
      return status;
    const struct handle *handle = &step->calls->handles.handles[place];
    row = row_of_handle(step, OP_TRUNCATE, handle);
    node = handle->node;
  } else {
    int32_t number = read_file(step, false);
    if (number < 0)
      return number;
    row.file = number;
    if (step->call.value == 0 && (node = files_present(&step->calls->files, number)) < 0)
      return node;
  }

  /* A failed call has a row too, but changes no size. */
  if (!read_number(step, &row.length_bytes))
    return -EINVAL;
  if (step->call.value == 0)
    node_cut(&step->calls->files, node, row.length_bytes);
  return add_row(step->calls, row);
}

int on_allocate(struct step *step) {
  int32_t place;
  int64_t mode;
  int status = read_handle(step, &place);
  if (status || place < 0)
    return status;
  const struct handle *handle = &step->calls->handles.handles[place];
  struct tk_operation row = row_of_handle(step, OP_FALLOCATE, handle);
  if (!read_number(step, &mode) || !read_number(step, &row.offset_bytes) ||
      !read_number(step, &row.length_bytes))
    return -EINVAL;

  /* What digs holes or moves what is behind them is no reservation. */
  if (mode & ~FALLOC_FL_KEEP_SIZE) {
    step->calls->files.nodes[handle->node].is_changed = true;
    step->calls->files.nodes[handle->node].bytes = -1;
    return leave_out(step->calls, step->name);
  }
  if (step->call.value == 0 && mode == 0)
    node_written(&step->calls->files, handle->node,
                 place_behind(row.offset_bytes, row.length_bytes));
  return add_row(step->calls, row);
}

int on_readdir(struct step *step) {
  int32_t place;
  int status = read_handle(step, &place);
  if (status || place < 0)
    return status;
  const struct handle *handle = &step->calls->handles.handles[place];
  struct tk_operation row = row_of_handle(step, OP_READDIR, handle);
  step->calls->files.files[handle->file].kind = KIND_DIRECTORY;
  cursor_skip(&step->at);
  if (!read_number(step, &row.length_bytes))
    return -EINVAL;
  row.done_bytes = step->call.error ? NOTHING : step->call.value;
  return add_row(step->calls, row);
}
