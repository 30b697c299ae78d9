#include "files/codes.h"

const char *plan_operation_name(enum plan_operation operation) {
  static const char *const names[PLAN_OPERATIONS] = {
      "open",      "create", "close",  "read",   "write", "fsync", "fdatasync", "sync_file_range",
      "stat",      "rename", "link",   "unlink", "mkdir", "rmdir", "readdir",   "truncate",
      "fallocate", "mmap",   "munmap", "msync",  "sync"};
  return names[operation];
}
