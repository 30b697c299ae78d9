/* What files.bpf.c passes on: one record a file system call, when it returned, and what happens to
 * threads. A recording is a file_header, then records, each a multiple of eight bytes, in the order
 * in which they were made. All numbers are in the machine's byte order. */
#ifndef TRACEKIT_CAPTURE_FILE_RECORD_H
#define TRACEKIT_CAPTURE_FILE_RECORD_H

#include <linux/types.h>

#define FILE_SIGN "tracekit-files 1"
#define FILE_ARGUMENTS 6
#define FILE_TEXTS 4
#define FILE_PATH_BYTES 4096           /* of one text */
#define FILE_OTHER_FACT 5              /* the argument in whose place a second fact stands */
#define FILE_NO_PLACE ((__u64)1 << 63) /* an offset that the caller did not give */
#define FILE_COMM_BYTES 16

struct file_header {
  char sign[24];          /* FILE_SIGN */
  __s64 clock_to_wall_ns; /* to be added to a record's time to get unix time */
};

/* What `call` is, where it is no place in the table of file_calls.h. */
enum file_event {
  FILE_FORK = 0xff00, /* by `tid`; `result`: the new thread; first argument: flags of clone */
  FILE_EXEC,          /* text 0: the program; first argument: the thread that called it */
  FILE_EXIT,          /* of the thread */
  FILE_LOST,          /* from user space: FILE_LOSSES, since the start; FILE_WHOLE at the end */
};

/* The arguments of FILE_LOST. */
enum file_loss {
  FILE_LOST_RECORDS, /* for which the ring had no space, or whose descriptor changed meanwhile */
  FILE_UNSEEN,       /* events for which the kernel ran no program, at most */
  FILE_FOREIGN,      /* calls of programs of another architecture, at least */
  FILE_LOSSES,
};

/* What is behind a descriptor among the arguments. */
enum file_behind {
  FILE_NONE,     /* nothing: it is not open */
  FILE_PATH,     /* something with a path; its text is there unless it was given before */
  FILE_NAMELESS, /* a pipe, socket or the like */
};

enum file_phase {
  FILE_WHOLE, /* the record is of a call's beginning and end */
  FILE_BEGUN, /* of its beginning: the end follows */
  FILE_ENDED, /* of its end: the beginning was passed on */
};

/* Its texts follow, one behind the other, without terminators: two paths as the caller gave them
 * (the second one may be that of the result, or of the working directory), and those behind two
 * descriptors. A path that the kernel knows has its parts from the last one on, each with a NUL. */
struct file_record {
  __u64 start_ns, end_ns;          /* CLOCK_MONOTONIC; end_ns is 0 in FILE_BEGUN */
  __s64 result;                    /* or -errno */
  __u64 arguments[FILE_ARGUMENTS]; /* as given, or what they point at: see file_calls.h */
  __u32 size;                      /* bytes of the whole record */
  __u32 tid;
  __u16 call; /* place in the table of file_calls.h, or enum file_event */
  __u16 text_bytes[FILE_TEXTS];
  __u8 behind[2]; /* enum file_behind, of the first two descriptors among the arguments */
  __u8 unread;    /* bits of arguments that point at what could not be read */
  __u8 phase;     /* enum file_phase */
  __u8 reserved[2];
};

#endif
