/* The operations of a file plan and their flags, by the numbers that INTERFACE.md gives them. */
#ifndef TRACEKIT_FILES_CODES_H
#define TRACEKIT_FILES_CODES_H

enum plan_operation {
  PLAN_OPEN,
  PLAN_CREATE,
  PLAN_CLOSE,
  PLAN_READ,
  PLAN_WRITE,
  PLAN_FSYNC,
  PLAN_FDATASYNC,
  PLAN_SYNC_FILE_RANGE,
  PLAN_STAT,
  PLAN_RENAME,
  PLAN_LINK,
  PLAN_UNLINK,
  PLAN_MKDIR,
  PLAN_RMDIR,
  PLAN_READDIR,
  PLAN_TRUNCATE,
  PLAN_FALLOCATE,
  PLAN_MMAP,
  PLAN_MUNMAP,
  PLAN_MSYNC,
  PLAN_SYNC
};
#define PLAN_OPERATIONS 21U

enum plan_flag {
  PLAN_IS_DIRECT = 1,
  PLAN_IS_SYNC = 2,
  PLAN_IS_APPEND = 4,
  PLAN_IS_EXCLUSIVE = 8,
  PLAN_IS_TRUNCATE = 16,
  PLAN_FOR_READ = 32,
  PLAN_FOR_WRITE = 64,
  PLAN_IS_UNTIMED = 128,
  PLAN_CONTINUES = 256,
  PLAN_IS_DATA_SYNC = 512,
  PLAN_KEEPS_SIZE = 1024,
  PLAN_PUNCHES_HOLE = 2048,
};
#define PLAN_FLAGS 4095U

/* Returns "open", "create" and so on; any thread. */
const char *plan_operation_name(enum plan_operation operation);

#endif
