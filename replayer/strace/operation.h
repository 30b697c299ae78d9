/* One row of `file_operations`, as it leaves the library. */
#ifndef TRACEKIT_STRACE_OPERATION_H
#define TRACEKIT_STRACE_OPERATION_H

#include <stdint.h>

/* In the order of OPERATIONS in tracekit/tables.py. */
enum operation {
  OP_OPEN,
  OP_CREATE,
  OP_CLOSE,
  OP_READ,
  OP_WRITE,
  OP_FSYNC,
  OP_FDATASYNC,
  OP_SYNC_FILE_RANGE,
  OP_STAT,
  OP_RENAME,
  OP_LINK,
  OP_UNLINK,
  OP_MKDIR,
  OP_RMDIR,
  OP_READDIR,
  OP_TRUNCATE,
  OP_FALLOCATE,
  OP_MMAP,
  OP_MUNMAP,
  OP_MSYNC,
  OP_SYNC,
  OP_CHMOD,
  OP_CHOWN,
  OP_UTIMENS,
  OP_SYMLINK,
  OP_SETXATTR,
  OP_GETXATTR,
  OP_LISTXATTR,
  OP_REMOVEXATTR,
  OPERATIONS,
};

enum operation_flag {
  FLAG_DIRECT = 1,
  FLAG_SYNC = 2,
  FLAG_APPEND = 4,
  FLAG_TRUNCATE = 8,
  FLAG_EXCLUSIVE = 16,
};

#define NOTHING (-1) /* of a number: null */

struct tk_operation {
  int64_t start_ns, end_ns; /* since the first line; end_ns may be NOTHING */
  int64_t file, other_file, handle, offset_bytes, length_bytes, done_bytes; /* or NOTHING */
  int32_t process; /* index of its name, or NOTHING */
  int32_t pid, tid, error;
  int32_t operation, flags;
};

#endif
