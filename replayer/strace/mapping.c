/* Calls on files in memory. What is read and written there is not seen. */
#include <errno.h>
#include <sys/mman.h>

#include "strace/follow.h"

/* Forgets what was mapped at the same place before. */
static int forget(struct maps *maps, uint64_t start, uint64_t length) {
  struct map cut;
  int found;
  do
    found = maps_cut(maps, start, length, &cut);
  while (found > 0);
  return found;
}

int on_map(struct step *step) {
  int32_t place;
  int64_t length;
  int64_t protection;
  int64_t flags;
  cursor_skip(&step->at);
  if (!read_number(step, &length) || !read_number(step, &protection) || !read_number(step, &flags))
    return -EINVAL;
  uint64_t start = (uint64_t)step->call.value;
  bool is_done = step->call.error == 0;
  int status = is_done ? forget(step->task->maps, start, (uint64_t)length) : 0;
  if (status || (flags & MAP_ANONYMOUS))
    return status;
  status = read_handle(step, &place);
  if (status || place < 0)
    return status;
  const struct handle *handle = &step->calls->handles.handles[place];
  struct tk_operation row = row_of(step, OP_MMAP);
  row.file = handle->file;
  row.handle = handle->id;
  row.length_bytes = length;
  if (!read_number(step, &row.offset_bytes))
    return -EINVAL;
  struct map map = {start, (uint64_t)length, row.offset_bytes, handle->file};
  status = is_done ? maps_add(step->task->maps, map) : 0;
  return status ? status : add_row(step->calls, row);
}

int on_unmap(struct step *step) {
  int64_t start;
  int64_t length;
  int64_t flags = 0;
  struct map found;
  bool is_sync = step->detail == OP_MSYNC;
  if (!read_number(step, &start) || !read_number(step, &length))
    return -EINVAL;
  cursor_number(&step->at, &flags);
  uint64_t from = (uint64_t)start;
  uint64_t left = (uint64_t)length;
  while (step->call.error == 0) {
    int status = is_sync ? maps_find(step->task->maps, from, left, &found)
                         : maps_cut(step->task->maps, from, left, &found);
    if (status <= 0)
      return status;
    struct tk_operation row = row_of(step, (enum operation)step->detail);
    row.file = found.file;
    row.offset_bytes = found.offset_bytes;
    row.length_bytes = (int64_t)found.length;
    row.flags = is_sync && (flags & MS_SYNC) ? FLAG_SYNC : 0;
    status = add_row(step->calls, row);
    if (status || is_sync)
      return status;
  }
  return 0;
}
