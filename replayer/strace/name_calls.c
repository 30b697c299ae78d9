/* Calls on names: stat, rename, link, symlink, remove, mkdir. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include "strace/call_table.h"

/* Reads the number behind `name=` in what a call returned, without going on. */
static bool read_result(const struct step *step, const char *name, int64_t *out) {
  struct cursor cursor = step->at;
  return cursor_find(&cursor, name) && cursor_number(&cursor, out);
}

/* Takes in what a stat reported of a file and of the node that it leads to. */
static void note_stat(const struct step *step, int32_t number, int32_t node) {
  struct files *files = &step->calls->files;
  struct file *file = &files->files[number];
  int64_t mode;
  int64_t bytes;
  if (file->kind == KIND_OTHER || !read_result(step, "mode=", &mode))
    return;
  file->kind = S_ISREG(mode) ? KIND_FILE : S_ISDIR(mode) ? KIND_DIRECTORY : KIND_OTHER;
  if (S_ISREG(mode) && read_result(step, "size=", &bytes))
    node_set_size(files, node, bytes, EVIDENCE_STAT);
}

/* Makes the row of a stat of an open file. */
static int stat_handle(struct step *step) {
  int32_t place;
  int status = read_handle(step, &place);
  if (status || place < 0)
    return status;
  const struct handle *handle = &step->calls->handles.handles[place];
  struct tk_operation row = row_of(step, OP_STAT);
  row.file = handle->file;
  row.handle = handle->id;
  if (step->call.value == 0)
    note_stat(step, handle->file, handle->node);
  return add_row(step->calls, row);
}

/* Takes in that a path was there when it was asked for. */
static int note_path(const struct step *step, int32_t number) {
  int64_t mode;
  /* A link itself is not what its path leads to. */
  bool is_link = read_result(step, "mode=", &mode) && S_ISLNK(mode);
  int32_t node = is_link ? 0 : files_present(&step->calls->files, number);
  if (node >= 0 && !is_link)
    note_stat(step, number, node);
  return node < 0 ? node : 0;
}

bool is_of_handle(const struct step *step) {
  struct cursor cursor = step->at;
  struct described at;
  char text[PATH_BYTES];
  if (!(step->detail & FORM_AT))
    return step->detail & FORM_HANDLE;
  if (!cursor_described(&cursor, &at) || at.fd == AT_FDCWD)
    return false;
  cursor_skip(&cursor);
  bool is_null = cursor.at < cursor.end && *cursor.at == 'N';
  return is_null || cursor_text(&cursor, text, sizeof(text)) == 0;
}

int on_stat(struct step *step) {
  if (is_of_handle(step))
    return stat_handle(step);
  int32_t number = read_file(step, step->detail & FORM_AT);
  if (number < 0)
    return step->call.error == EFAULT || step->call.error == ENOENT ? 0 : number;
  if (step->call.error == ENOENT)
    files_absent(&step->calls->files, number);
  int status = step->call.value == 0 ? note_path(step, number) : 0;
  struct tk_operation row = row_of(step, OP_STAT);
  row.file = number;
  return status ? status : add_row(step->calls, row);
}

static int exchange(struct files *files, int32_t one, int32_t other) {
  int32_t node = files_present(files, one);
  int32_t second = files_present(files, other);
  if (node < 0 || second < 0)
    return -ENOMEM;
  files->files[one].node = second;
  files->files[other].node = node;
  return 0;
}

int on_two_names(struct step *step) {
  bool is_link = step->detail & FORM_LINK;
  int64_t flags = 0;
  struct tk_operation row = row_of(step, is_link ? OP_LINK : OP_RENAME);
  int32_t from = read_file(step, step->detail & FORM_AT);
  int32_t to = from < 0 ? from : read_file(step, step->detail & FORM_AT);
  if (to < 0)
    return to;
  cursor_number(&step->at, &flags);
  row.file = from;
  row.other_file = to;

  /* The row is made of a failed call, too; only a successful one changes names. */
  int status = 0;
  if (step->call.value == 0 && is_link)
    status = files_linked(&step->calls->files, from, to);
  else if (step->call.value == 0 && (flags & RENAME_EXCHANGE))
    status = exchange(&step->calls->files, from, to);
  else if (step->call.value == 0)
    status = files_renamed(&step->calls->files, from, to);
  return status ? status : add_row(step->calls, row);
}

int on_remove(struct step *step) {
  struct tk_calls *calls = step->calls;
  int64_t flags = 0;
  int32_t number = read_file(step, step->detail & FORM_AT);
  if (number < 0)
    return number;
  cursor_number(&step->at, &flags);
  bool is_folder = (step->detail & FORM_FOLDER) || (flags & AT_REMOVEDIR);
  struct tk_operation row = row_of(step, is_folder ? OP_RMDIR : OP_UNLINK);
  row.file = number;

  /* The call also says whether the name was there, and what it was. */
  if (step->call.error == ENOENT)
    files_absent(&calls->files, number);
  if (step->call.value == 0) {
    if (files_present(&calls->files, number) < 0)
      return -ENOMEM;
    if (is_folder)
      calls->files.files[number].kind = KIND_DIRECTORY;
    files_removed(&calls->files, number);
  }
  return add_row(calls, row);
}

int on_mkdir(struct step *step) {
  int32_t number = read_file(step, step->detail & FORM_AT);
  if (number < 0)
    return number;
  struct tk_operation row = row_of(step, OP_MKDIR);
  row.file = number;
  if (step->call.value == 0 && files_made(&step->calls->files, number) < 0)
    return -ENOMEM;
  if (step->call.value == 0 || step->call.error == EEXIST)
    step->calls->files.files[number].kind = KIND_DIRECTORY;
  return add_row(step->calls, row);
}

/* A plain file is made as an open makes it, without a descriptor; of devices and pipes the name is
 * kept for what it is. */
int on_mknod(struct step *step) {
  struct files *files = &step->calls->files;
  int64_t mode;
  int32_t number = read_file(step, step->detail & FORM_AT);
  if (number < 0)
    return number;
  if (!read_number(step, &mode))
    return -EINVAL;
  bool is_plain = S_ISREG(mode) || (mode & S_IFMT) == 0;
  if (step->call.value == 0) {
    if (files_made(files, number) < 0)
      return -ENOMEM;
    files->files[number].kind = is_plain ? KIND_FILE : KIND_OTHER;
  }
  if (!is_plain)
    return leave_out(step->calls, step->name);
  struct tk_operation row = row_of(step, OP_CREATE);
  row.file = number;
  row.flags = FLAG_EXCLUSIVE;
  return add_row(step->calls, row);
}

/* What a symbolic link leads to is named by its own path in every other row. That its name is no
 * plain file is kept, so that a replay leaves out the link and what is done to it. */
int on_symlink(struct step *step) {
  struct files *files = &step->calls->files;
  cursor_skip(&step->at); /* the target, as it was written */
  int32_t number = read_file(step, step->detail & FORM_AT);
  if (number < 0)
    return number;
  if (step->call.value == 0) {
    if (files_present(files, number) < 0)
      return -ENOMEM;
    files->files[number].kind = KIND_OTHER;
  }
  struct tk_operation row = row_of(step, OP_SYMLINK);
  row.file = number;
  return add_row(step->calls, row);
}
