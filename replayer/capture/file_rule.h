/* What files.bpf.c does at a system call, by the call's number: made from file_calls.h by the
 * program that loads it. */
#ifndef TRACEKIT_CAPTURE_FILE_RULE_H
#define TRACEKIT_CAPTURE_FILE_RULE_H

#include <linux/types.h>

#define FILE_NUMBERS 512 /* of system calls */

enum file_rule_flag {
  FILE_IS_RECORDED = 1,
  FILE_ONLY_PATHS = 2,     /* left out unless a descriptor leads to a path */
  FILE_MAKES_FD = 4,       /* the result is a descriptor */
  FILE_WORKING_FOLDER = 8, /* the working directory is text 1 */
  FILE_SOME = 16,          /* only some of the calls */
  FILE_CHANGES_FDS = 32,   /* opens, closes or leads descriptors elsewhere */
};

#define FILE_NO_ARGUMENT 255

/* Where an argument is its place, or FILE_NO_ARGUMENT. */
struct file_rule {
  __u16 call; /* enum file_call */
  __u16 flags;
  __u8 path[2], fd[2], offset[2];
  __u8 stat, statx, how;
  __u8 is_folder[2]; /* the descriptor is that of a folder, whose path follows */
  __u8 reserved;
};

/* What the programs count, in the map of that name. */
enum file_count {
  FILE_COUNT_LIVE,    /* threads that are traced */
  FILE_COUNT_STARTED, /* threads that were */
  FILE_COUNT_FOREIGN, /* calls of programs of another architecture */
  FILE_COUNTS,
};

/* What is kept of a thread. */
enum file_state {
  FILE_SPAWNS, /* its next child is the command */
  FILE_WAITS,  /* it has not called exec yet */
  FILE_TRACED,
};

struct file_thread {
  __u64 start_ns; /* of the call that it is in; 0: none that is recorded */
  __u32 state;    /* enum file_state */
  __u32 is_begun; /* the call's beginning was passed on */
  __u64 files[2]; /* behind its descriptors as it began, where other threads may change that */
  __u32 is_noted; /* files */
  __u32 reserved;
};

#endif
