/* Calls on what a file system keeps about a file: mode, owner, times, extended attributes; and what
 * is only counted. */
#include <errno.h>
#include <fcntl.h>

#include "strace/call_table.h"

/* Writes what the call is of into the row. Returns 1, 0 when no file is behind it, -errno. */
static int read_what(struct step *step, struct tk_operation *row) {
  struct files *files = &step->calls->files;
  int32_t place;
  if (is_of_handle(step)) {
    int status = read_handle(step, &place);
    if (status || place < 0)
      return status;
    if (step->detail & FORM_AT)
      cursor_skip(&step->at);
    row->file = step->calls->handles.handles[place].file;
    row->handle = step->calls->handles.handles[place].id;
    return 1;
  }
  int32_t number = read_file(step, step->detail & FORM_AT);
  if (number < 0)
    return step->call.error == EFAULT || step->call.error == ENOENT ? 0 : number;
  row->file = number;

  /* The call also says whether the name was there; a link's own name leads to no node. */
  if (step->call.error == ENOENT)
    files_absent(files, number);
  bool is_there = step->call.error == 0 && files->files[number].kind != KIND_OTHER;
  int32_t node = is_there ? files_present(files, number) : 0;
  return node < 0 ? node : 1;
}

int on_metadata(struct step *step) {
  struct tk_operation row = row_of(step, (enum operation)(step->detail >> FORM_BITS));
  int status = read_what(step, &row);
  if (status <= 0)
    return status;
  if (!(step->detail & (FORM_VALUE | FORM_LIST)))
    return add_row(step->calls, row);

  /* Of an attribute the size is kept; neither its name nor its value. */
  if (step->detail & FORM_VALUE)
    cursor_skip(&step->at);
  cursor_skip(&step->at);
  if (!read_number(step, &row.length_bytes))
    return -EINVAL;
  /* A call with a buffer of no bytes asks for the size alone. */
  if (step->call.error == 0 && row.operation != OP_SETXATTR)
    row.done_bytes = row.length_bytes ? step->call.value : 0;
  if (step->call.error == 0 && row.operation == OP_SETXATTR)
    row.done_bytes = row.length_bytes;
  return add_row(step->calls, row);
}

int on_submit(struct step *step) {
  if (step->call.value > 0)
    step->calls->stats.submitted += step->call.value;
  return leave_out(step->calls, step->name);
}
