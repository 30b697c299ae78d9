#include <stdlib.h>
#include <string.h>

#include "strace/call_table.h"

/* In the order of their names. */
static const struct known_call calls[] = {
    {"access", on_stat, FORM_PATH, true},
    {"chdir", on_chdir, FORM_PATH, false},
    {"clone", on_clone, 0, false},
    {"clone3", on_clone, 0, false},
    {"close", on_close, 0, true},
    {"close_range", on_close_range, 0, true},
    {"copy_file_range", on_copy, 0, true},
    {"creat", on_open, FORM_CREAT, true},
    {"dup", on_dup, 0, false},
    {"dup2", on_dup, 2, true},
    {"dup3", on_dup, 3, true},
    {"execve", on_exec, FORM_PATH, true},
    {"execveat", on_exec, FORM_AT, true},
    {"faccessat", on_stat, FORM_AT, true},
    {"faccessat2", on_stat, FORM_AT, true},
    {"fallocate", on_allocate, 0, true},
    {"fchdir", on_chdir, FORM_HANDLE, false},
    {"fcntl", on_fcntl, 0, false},
    {"fdatasync", on_sync, OP_FDATASYNC, true},
    {"fork", on_clone, 0, false},
    {"fstat", on_stat, FORM_HANDLE, true},
    {"fsync", on_sync, OP_FSYNC, true},
    {"ftruncate", on_truncate, FORM_HANDLE, true},
    {"getdents", on_readdir, 0, true},
    {"getdents64", on_readdir, 0, true},
    {"link", on_two_names, FORM_PATH | FORM_LINK, true},
    {"linkat", on_two_names, FORM_AT | FORM_LINK, true},
    {"lseek", on_seek, 0, false},
    {"lstat", on_stat, FORM_PATH, true},
    {"mkdir", on_mkdir, FORM_PATH, true},
    {"mkdirat", on_mkdir, FORM_AT, true},
    {"mmap", on_map, 0, true},
    {"msync", on_unmap, OP_MSYNC, true},
    {"munmap", on_unmap, OP_MUNMAP, true},
    {"newfstatat", on_stat, FORM_AT, true},
    {"open", on_open, FORM_PATH, true},
    {"openat", on_open, FORM_AT, true},
    {"openat2", on_open, FORM_AT | FORM_HOW, true},
    {"prctl", on_name, 0, false},
    {"pread64", on_transfer, FORM_PLACED, true},
    {"preadv", on_transfer, FORM_PLACED | FORM_VECTOR, true},
    {"preadv2", on_transfer, FORM_PLACED | FORM_VECTOR, true},
    {"pwrite64", on_transfer, FORM_WRITE | FORM_PLACED, true},
    {"pwritev", on_transfer, FORM_WRITE | FORM_PLACED | FORM_VECTOR, true},
    {"pwritev2", on_transfer, FORM_WRITE | FORM_PLACED | FORM_VECTOR, true},
    {"read", on_transfer, 0, true},
    {"readv", on_transfer, FORM_VECTOR, true},
    {"rename", on_two_names, FORM_PATH, true},
    {"renameat", on_two_names, FORM_AT, true},
    {"renameat2", on_two_names, FORM_AT, true},
    {"rmdir", on_remove, FORM_PATH | FORM_FOLDER, true},
    {"sendfile", on_copy, FORM_SEND, true},
    {"splice", on_copy, 0, true},
    {"stat", on_stat, FORM_PATH, true},
    {"statx", on_stat, FORM_AT, true},
    {"symlink", on_symlink, FORM_PATH, false},
    {"symlinkat", on_symlink, FORM_AT, false},
    {"sync", on_sync, OP_SYNC, true},
    {"sync_file_range", on_sync, OP_SYNC_FILE_RANGE, true},
    {"syncfs", on_sync, OP_SYNC, true},
    {"truncate", on_truncate, FORM_PATH, true},
    {"unlink", on_remove, FORM_PATH, true},
    {"unlinkat", on_remove, FORM_AT, true},
    {"vfork", on_clone, 0, false},
    {"write", on_transfer, FORM_WRITE, true},
    {"writev", on_transfer, FORM_WRITE | FORM_VECTOR, true},
};

static int compare(const void *name, const void *known) {
  const struct view *view = name;
  const char *other = ((const struct known_call *)known)->name;
  size_t length = strlen(other);
  int order = memcmp(view->text, other, view->length < length ? view->length : length);
  return order ? order : (view->length > length) - (view->length < length);
}

const struct known_call *known_call(struct view name) {
  return bsearch(&name, calls, sizeof(calls) / sizeof(calls[0]), sizeof(calls[0]), compare);
}
