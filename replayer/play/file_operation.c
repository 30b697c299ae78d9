#include "play/file_operation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "play/open_beneath.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* The kernel touches the pages: a page that is not there is an error and no signal. */
static int touch(const struct handle_mapping *mapping, bool only_reads) {
  int advice = only_reads ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
  return madvise(mapping->memory, mapping->bytes, advice) != 0 ? -errno : 0;
}

/* An earlier mapping of the handle is replaced only when the new one is there. */
static int64_t mapped_touch(struct handle_table *handles, const struct file_record *record,
                            int fd) {
  bool only_reads = (record->flags & (FILE_FOR_READ | FILE_FOR_WRITE)) == FILE_FOR_READ;
  uint64_t before = record->offset % (uint64_t)sysconf(_SC_PAGESIZE);
  struct handle_mapping *mapping = malloc(sizeof *mapping);
  if (mapping == NULL)
    return -ENOMEM;
  mapping->bytes = record->length + before;
  mapping->memory = mmap(NULL, mapping->bytes, only_reads ? PROT_READ : PROT_READ | PROT_WRITE,
                         MAP_SHARED, fd, (off_t)(record->offset - before));
  int rc = mapping->memory == MAP_FAILED ? -errno : 0;
  if (rc != 0) {
    free(mapping);
    return rc;
  }
  rc = touch(mapping, only_reads);
  (void)handle_table_unmap(
      handle_table_exchange_mapping(handles, record->handle, mapping)); /* of ours */
  return rc == 0 ? (int64_t)record->length : rc;
}

static int64_t mapped_sync(struct handle_table *handles, uint32_t handle) {
  const struct handle_mapping *mapping = handle_table_mapping(handles, handle);
  if (mapping == NULL)
    return -EBADF;
  return msync(mapping->memory, mapping->bytes, MS_SYNC) != 0 ? -errno : 0;
}

static int64_t mapped_end(struct handle_table *handles, uint32_t handle) {
  struct handle_mapping *mapping = handle_table_exchange_mapping(handles, handle, NULL);
  return mapping == NULL ? -EBADF : handle_table_unmap(mapping);
}

#define FILE_MODE 0644
#define ENTRIES_BYTES 32768U
#define DIRECTORY_MODE 0755
#define CONTENT_SHIFT_BYTES 4096U /* neighbours in the table differ in content */

static int64_t result(int64_t value) { return value < 0 ? -errno : value; }

const unsigned char *file_operation_content(const struct file_context *context, uint32_t file,
                                            uint64_t offset) {
  uint64_t shift = file == FILE_NONE ? 0 : (uint64_t)file * CONTENT_SHIFT_BYTES;
  return buffers_pattern_at(context->buffers, (offset == FILE_AT_POSITION ? 0 : offset) + shift);
}

static int open_flags(const struct file_context *context, const struct file_record *record) {
  unsigned access = record->flags & (FILE_FOR_READ | FILE_FOR_WRITE);
  int flags = access == FILE_FOR_READ ? O_RDONLY : access == FILE_FOR_WRITE ? O_WRONLY : O_RDWR;
  if (context->paths->kinds[record->file] == FILE_DIRECTORY)
    return O_RDONLY | O_DIRECTORY;
  if (record->operation == FILE_CREATE)
    flags |= O_CREAT | ((record->flags & FILE_IS_EXCLUSIVE) != 0 ? O_EXCL : 0);
  flags |= (record->flags & FILE_IS_DIRECT) != 0 ? O_DIRECT : 0;
  flags |= (record->flags & FILE_IS_SYNC) != 0 ? O_SYNC : 0;
  flags |= (record->flags & FILE_IS_DATA_SYNC) != 0 ? O_DSYNC : 0;
  flags |= (record->flags & FILE_IS_APPEND) != 0 ? O_APPEND : 0;
  return flags | ((record->flags & FILE_IS_TRUNCATE) != 0 ? O_TRUNC : 0);
}

static int64_t open_file(const struct file_context *context, const struct file_record *record) {
  int fd = open_beneath(context->run_fd, context->paths->text[record->file],
                        open_flags(context, record), FILE_MODE);
  if (fd < 0)
    return fd;
  int before = handle_table_exchange(context->handles, record->handle, fd);
  if (before >= 0)
    (void)close(before); /* another thread was quicker: the plan says nothing of its result */
  return 0;
}

void file_operation_clear(const struct file_context *context, const struct file_record *record) {
  if (record->operation != FILE_OPEN && record->operation != FILE_CREATE)
    return;
  int before = handle_table_exchange(context->handles, record->handle, -1);
  if (before >= 0)
    (void)close(before); /* the plan never closed it: there is no result to compare */
}

/* What goes by a handle, or by opening the path for just this. */
static int64_t with_file(const struct file_context *context, const struct file_record *record,
                         int flags, int64_t (*body)(int fd, const struct file_record *record)) {
  bool has_handle = record->handle != FILE_NONE;
  int fd = has_handle ? handle_table_fd(context->handles, record->handle)
                      : open_beneath(context->run_fd, context->paths->text[record->file], flags,
                                     FILE_MODE);
  if (fd < 0)
    return has_handle ? -EBADF : fd;
  int64_t done = body(fd, record);
  if (!has_handle)
    (void)close(fd); /* what was asked has its own result */
  return done;
}

static int64_t cut(int fd, const struct file_record *record) {
  return result(ftruncate(fd, (off_t)record->length));
}

static int64_t transfer(const struct file_context *context, const struct file_record *record,
                        unsigned char *sink, int fd) {
  bool at_position = record->offset == FILE_AT_POSITION;
  if (record->operation == FILE_READ)
    return result(at_position ? read(fd, sink, record->length)
                              : pread(fd, sink, record->length, (off_t)record->offset));
  const unsigned char *content = file_operation_content(context, record->file, record->offset);
  return result(at_position ? write(fd, content, record->length)
                            : pwrite(fd, content, record->length, (off_t)record->offset));
}

static int64_t reserve(int fd, const struct file_record *record) {
  bool punches = (record->flags & FILE_PUNCHES_HOLE) != 0;
  int mode = punches                                  ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
             : (record->flags & FILE_KEEPS_SIZE) != 0 ? FALLOC_FL_KEEP_SIZE
                                                      : 0;
  return result(fallocate(fd, mode, (off_t)record->offset, (off_t)record->length));
}

/* A handle that another thread has closed is an error of the record, never a call on a wrong
 * descriptor. */
static int64_t on_handle(const struct file_context *context, const struct file_record *record,
                         unsigned char *sink) {
  if (record->operation == FILE_CLOSE) {
    int closed = handle_table_exchange(context->handles, record->handle, -1);
    return closed < 0 ? -EBADF : result(close(closed));
  }
  int fd = handle_table_fd(context->handles, record->handle);
  if (fd < 0 && record->operation != FILE_MUNMAP && record->operation != FILE_MSYNC)
    return -EBADF;
  switch (record->operation) {
  case FILE_READ:
  case FILE_WRITE:
    return transfer(context, record, sink, fd);
  case FILE_FSYNC:
    return result(fsync(fd));
  case FILE_FDATASYNC:
    return result(fdatasync(fd));
  case FILE_SYNC_FILE_RANGE:
    return result(sync_file_range(fd, (off_t)record->offset, (off_t)record->length,
                                  SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                      SYNC_FILE_RANGE_WAIT_AFTER));
  case FILE_FALLOCATE:
    return reserve(fd, record);
  case FILE_MMAP:
    return mapped_touch(context->handles, record, fd);
  case FILE_MUNMAP:
    return mapped_end(context->handles, record->handle);
  default:
    return mapped_sync(context->handles, record->handle);
  }
}

/* Returns the number of entries of an open directory, or -errno. They are read by the system call
 * itself, since the directory streams of the C library would allocate. */
static int64_t list_entries(int fd, const struct file_record *record) {
  _Alignas(8) unsigned char entries[ENTRIES_BYTES];
  int64_t count = 0;
  (void)record;
  if (lseek(fd, 0, SEEK_SET) < 0)
    return -errno;
  for (;;) {
    long size = syscall(SYS_getdents64, fd, entries, sizeof entries);
    if (size <= 0)
      return size < 0 ? -errno : count;
    /* struct linux_dirent64: d_ino and d_off of 8 bytes, then d_reclen of 2. */
    for (long at = 0; at < size; count++) {
      uint16_t entry_bytes;
      memcpy(&entry_bytes, entries + at + 16, sizeof entry_bytes);
      at += entry_bytes;
    }
  }
}

static int64_t look(const struct file_context *context, const struct file_record *record) {
  struct stat status;
  if (record->handle == FILE_NONE)
    return result(
        fstatat(context->run_fd, context->paths->text[record->file], &status, AT_SYMLINK_NOFOLLOW));
  int fd = handle_table_fd(context->handles, record->handle);
  return fd < 0 ? -EBADF : result(fstat(fd, &status));
}

static int64_t give_file_mode(int fd, const struct file_record *record) {
  (void)record;
  return result(fchmod(fd, FILE_MODE));
}

static int64_t give_directory_mode(int fd, const struct file_record *record) {
  (void)record;
  return result(fchmod(fd, DIRECTORY_MODE));
}

/* The mode with which it was made, so that what follows can be opened as before. */
static int64_t change_mode(const struct file_context *context, const struct file_record *record) {
  bool is_directory =
      record->file != FILE_NONE && context->paths->kinds[record->file] == FILE_DIRECTORY;
  return with_file(context, record, O_RDONLY, is_directory ? give_directory_mode : give_file_mode);
}

/* Owner -1 and group -1 stay what they are; the inode is written all the same. */
static int64_t change_owner(const struct file_context *context, const struct file_record *record) {
  const uid_t same_user = (uid_t)-1;
  const gid_t same_group = (gid_t)-1;
  if (record->handle == FILE_NONE)
    return result(fchownat(context->run_fd, context->paths->text[record->file], same_user,
                           same_group, AT_SYMLINK_NOFOLLOW));
  int fd = handle_table_fd(context->handles, record->handle);
  return fd < 0 ? -EBADF : result(fchown(fd, same_user, same_group));
}

static int64_t change_times(const struct file_context *context, const struct file_record *record) {
  if (record->handle == FILE_NONE)
    return result(
        utimensat(context->run_fd, context->paths->text[record->file], NULL, AT_SYMLINK_NOFOLLOW));
  int fd = handle_table_fd(context->handles, record->handle);
  return fd < 0 ? -EBADF : result(futimens(fd, NULL));
}

/* Every path begins in the directory of the run, where no operation makes a symbolic link. */
static int64_t on_path(const struct file_context *context, const struct file_record *record) {
  const char *path = record->file == FILE_NONE ? "" : context->paths->text[record->file];
  const char *other = record->other == FILE_NONE ? "" : context->paths->text[record->other];
  int run = context->run_fd;
  switch (record->operation) {
  case FILE_STAT:
    return look(context, record);
  case FILE_RENAME:
    return result(renameat(run, path, run, other));
  case FILE_LINK:
    return result(linkat(run, path, run, other, 0));
  case FILE_UNLINK:
    return result(unlinkat(run, path, 0));
  case FILE_MKDIR:
    return result(mkdirat(run, path, DIRECTORY_MODE));
  case FILE_RMDIR:
    return result(unlinkat(run, path, AT_REMOVEDIR));
  case FILE_READDIR:
    return with_file(context, record, O_RDONLY | O_DIRECTORY, list_entries);
  case FILE_TRUNCATE:
    return with_file(context, record, O_WRONLY, cut);
  case FILE_CHMOD:
    return change_mode(context, record);
  case FILE_CHOWN:
    return change_owner(context, record);
  case FILE_UTIMENS:
    return change_times(context, record);
  default:
    return result(syncfs(run));
  }
}

int64_t file_operation_perform(const struct file_context *context, const struct file_record *record,
                               unsigned char *sink) {
  /* Each kind is one system call, or as many as the plan's operation stands for. */
  switch (record->operation) {
  case FILE_OPEN:
  case FILE_CREATE:
    return open_file(context, record);
  case FILE_STAT:
  case FILE_RENAME:
  case FILE_LINK:
  case FILE_UNLINK:
  case FILE_MKDIR:
  case FILE_RMDIR:
  case FILE_READDIR:
  case FILE_TRUNCATE:
  case FILE_SYNC:
  case FILE_CHMOD:
  case FILE_CHOWN:
  case FILE_UTIMENS:
    return on_path(context, record);
  default:
    return on_handle(context, record, sink);
  }
}
