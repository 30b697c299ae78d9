#include "files/operation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/beneath.h"
#include "files/mapped.h"

#define FILE_MODE 0644
#define DIRECTORY_MODE 0755
#define CONTENT_SHIFT_BYTES 4096U /* neighbours in the table differ in content */

static int64_t result(int64_t value) { return value < 0 ? -errno : value; }

const unsigned char *operation_content(const struct operation_place *place, uint32_t file,
                                       uint64_t offset) {
  uint64_t shift = file == PLAN_NONE ? 0 : (uint64_t)file * CONTENT_SHIFT_BYTES;
  return buffers_pattern_at(place->buffers, (offset == PLAN_AT_POSITION ? 0 : offset) + shift);
}

static int open_flags(const struct operation_place *place, const struct plan_record *record) {
  unsigned access = record->flags & (PLAN_FOR_READ | PLAN_FOR_WRITE);
  int flags = access == PLAN_FOR_READ ? O_RDONLY : access == PLAN_FOR_WRITE ? O_WRONLY : O_RDWR;
  if (place->paths->kinds[record->file] == PLAN_DIRECTORY)
    return O_RDONLY | O_DIRECTORY;
  if (record->operation == PLAN_CREATE)
    flags |= O_CREAT | ((record->flags & PLAN_IS_EXCLUSIVE) != 0 ? O_EXCL : 0);
  flags |= (record->flags & PLAN_IS_DIRECT) != 0 ? O_DIRECT : 0;
  flags |= (record->flags & PLAN_IS_SYNC) != 0 ? O_SYNC : 0;
  flags |= (record->flags & PLAN_IS_DATA_SYNC) != 0 ? O_DSYNC : 0;
  flags |= (record->flags & PLAN_IS_APPEND) != 0 ? O_APPEND : 0;
  return flags | ((record->flags & PLAN_IS_TRUNCATE) != 0 ? O_TRUNC : 0);
}

static int64_t open_file(const struct operation_place *place, const struct plan_record *record) {
  int fd = beneath_open(place->run_fd, place->paths->text[record->file], open_flags(place, record),
                        FILE_MODE);
  if (fd < 0)
    return fd;
  int before = handles_exchange(place->handles, record->handle, fd);
  if (before >= 0)
    (void)close(before); /* another thread was quicker: the plan says nothing of its result */
  return 0;
}

void operation_clear(const struct operation_place *place, const struct plan_record *record) {
  if (record->operation != PLAN_OPEN && record->operation != PLAN_CREATE)
    return;
  int before = handles_exchange(place->handles, record->handle, -1);
  if (before >= 0)
    (void)close(before); /* the plan never closed it: there is no result to compare */
}

/* What goes by a handle, or by opening the path for just this. */
static int64_t with_file(const struct operation_place *place, const struct plan_record *record,
                         int flags, int64_t (*body)(int fd, const struct plan_record *record)) {
  bool has_handle = record->handle != PLAN_NONE;
  int fd = has_handle
               ? handles_fd(place->handles, record->handle)
               : beneath_open(place->run_fd, place->paths->text[record->file], flags, FILE_MODE);
  if (fd < 0)
    return has_handle ? -EBADF : fd;
  int64_t done = body(fd, record);
  if (!has_handle)
    (void)close(fd); /* what was asked has its own result */
  return done;
}

static int64_t cut(int fd, const struct plan_record *record) {
  return result(ftruncate(fd, (off_t)record->length));
}

static int64_t transfer(const struct operation_place *place, const struct plan_record *record,
                        unsigned char *sink, int fd) {
  bool at_position = record->offset == PLAN_AT_POSITION;
  if (record->operation == PLAN_READ)
    return result(at_position ? read(fd, sink, record->length)
                              : pread(fd, sink, record->length, (off_t)record->offset));
  const unsigned char *content = operation_content(place, record->file, record->offset);
  return result(at_position ? write(fd, content, record->length)
                            : pwrite(fd, content, record->length, (off_t)record->offset));
}

static int64_t reserve(int fd, const struct plan_record *record) {
  bool punches = (record->flags & PLAN_PUNCHES_HOLE) != 0;
  int mode = punches                                  ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
             : (record->flags & PLAN_KEEPS_SIZE) != 0 ? FALLOC_FL_KEEP_SIZE
                                                      : 0;
  return result(fallocate(fd, mode, (off_t)record->offset, (off_t)record->length));
}

static int64_t on_handle(const struct operation_place *place, const struct plan_record *record,
                         unsigned char *sink) {
  if (record->operation == PLAN_CLOSE) {
    int closed = handles_exchange(place->handles, record->handle, -1);
    return closed < 0 ? -EBADF : result(close(closed));
  }
  int fd = handles_fd(place->handles, record->handle);
  if (fd < 0 && record->operation != PLAN_MUNMAP && record->operation != PLAN_MSYNC)
    return -EBADF;
  switch (record->operation) {
  case PLAN_READ:
  case PLAN_WRITE:
    return transfer(place, record, sink, fd);
  case PLAN_FSYNC:
    return result(fsync(fd));
  case PLAN_FDATASYNC:
    return result(fdatasync(fd));
  case PLAN_SYNC_FILE_RANGE:
    return result(sync_file_range(fd, (off_t)record->offset, (off_t)record->length,
                                  SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                      SYNC_FILE_RANGE_WAIT_AFTER));
  case PLAN_FALLOCATE:
    return reserve(fd, record);
  case PLAN_MMAP:
    return mapped_touch(place->handles, record, fd);
  case PLAN_MUNMAP:
    return mapped_end(place->handles, record->handle);
  default:
    return mapped_sync(place->handles, record->handle);
  }
}

static int64_t look(const struct operation_place *place, const struct plan_record *record) {
  struct stat status;
  if (record->handle == PLAN_NONE)
    return result(
        fstatat(place->run_fd, place->paths->text[record->file], &status, AT_SYMLINK_NOFOLLOW));
  int fd = handles_fd(place->handles, record->handle);
  return fd < 0 ? -EBADF : result(fstat(fd, &status));
}

static int64_t on_path(const struct operation_place *place, const struct plan_record *record) {
  const char *path = record->file == PLAN_NONE ? "" : place->paths->text[record->file];
  const char *other = record->other == PLAN_NONE ? "" : place->paths->text[record->other];
  int run = place->run_fd;
  switch (record->operation) {
  case PLAN_STAT:
    return look(place, record);
  case PLAN_RENAME:
    return result(renameat(run, path, run, other));
  case PLAN_LINK:
    return result(linkat(run, path, run, other, 0));
  case PLAN_UNLINK:
    return result(unlinkat(run, path, 0));
  case PLAN_MKDIR:
    return result(mkdirat(run, path, DIRECTORY_MODE));
  case PLAN_RMDIR:
    return result(unlinkat(run, path, AT_REMOVEDIR));
  case PLAN_READDIR:
    return with_file(place, record, O_RDONLY | O_DIRECTORY, beneath_list);
  case PLAN_TRUNCATE:
    return with_file(place, record, O_WRONLY, cut);
  default:
    return result(syncfs(run));
  }
}

int64_t operation_perform(const struct operation_place *place, const struct plan_record *record,
                          unsigned char *sink) {
  switch (record->operation) {
  case PLAN_OPEN:
  case PLAN_CREATE:
    return open_file(place, record);
  case PLAN_STAT:
  case PLAN_RENAME:
  case PLAN_LINK:
  case PLAN_UNLINK:
  case PLAN_MKDIR:
  case PLAN_RMDIR:
  case PLAN_READDIR:
  case PLAN_TRUNCATE:
  case PLAN_SYNC:
    return on_path(place, record);
  default:
    return on_handle(place, record, sink);
  }
}
