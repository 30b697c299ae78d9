/* Calls that map files into memory. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "strace/call_table.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* Forgets what was mapped at the same place before. */
static int forget(struct maps *maps, uint64_t start, uint64_t length) {
  struct map cut;
  int found;
  do
    found = maps_cut(maps, start, length, &cut);
  while (found > 0);
  return found;
}

/* What is read and written in memory is not seen: only the mapping itself has a row. */
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

  /* A range may cover several mappings: each has a row of its own. */
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

/* A mapping that stays where it is, and is at another place also. Returns 0 or -ENOMEM. */
static int doubled(struct maps *maps, const uint64_t old[2], const uint64_t new[2]) {
  struct map piece;
  int found = maps_find(maps, old[0], old[1] ? old[1] : 1, &piece);
  int status = forget(maps, new[0], new[1]);
  if (status || !found)
    return status;
  piece.start = new[0];
  piece.length = new[1];
  return maps_add(maps, piece);
}

/* What was mapped goes to its new place; the last of it grows. Returns 0 or -ENOMEM. */
static int moved(struct maps *maps, const uint64_t old[2], const uint64_t new[2]) {
  struct maps taken = {0};
  struct map piece;
  int status;
  while ((status = maps_cut(maps, old[0], old[1], &piece)) > 0) {
    uint64_t at = piece.start - old[0];
    bool is_last = at + piece.length == old[1];
    uint64_t end = is_last || at + piece.length > new[1] ? new[1] : at + piece.length;
    piece.start = new[0] + at;
    piece.length = end - at;
    if (at < end && (status = maps_add(&taken, piece)))
      break;
  }
  if (status == 0) /* also what memory of no file comes to lie on */
    status = forget(maps, new[0], new[1]);
  for (uint32_t i = 0; i < taken.count && status == 0; i++)
    status = maps_add(maps, taken.maps[i]);
  free(taken.maps);
  return status;
}

/* A mapping goes elsewhere, or has another length: mremap(2). It has no row. */
int on_remap(struct step *step) {
  int64_t start;
  int64_t before;
  int64_t length;
  int64_t flags;
  if (!read_number(step, &start) || !read_number(step, &before) || !read_number(step, &length) ||
      !read_number(step, &flags))
    return -EINVAL;
  if (step->call.error)
    return 0;
  uint64_t old[2] = {(uint64_t)start, (uint64_t)before};
  uint64_t new[2] = {(uint64_t)step->call.value, (uint64_t)length};
  bool stays = before == 0 || (flags & MREMAP_DONTUNMAP);
  return (stays ? doubled : moved)(step->task->maps, old, new);
}
