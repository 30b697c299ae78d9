/* Whether a run can go through at all: space, inodes, descriptors and the largest
 * file, asked before it starts. */
#ifndef TRACEKIT_PLAY_FREE_SPACE_H
#define TRACEKIT_PLAY_FREE_SPACE_H

#include <stdbool.h>

#include "play/file_plan.h"

struct free_space {
  uint64_t needed_bytes; /* of the plan, with a block a file */
  uint64_t free_bytes;   /* for this user */
  uint64_t needed_inodes;
  uint64_t free_inodes;  /* UINT64_MAX: no limit known */
  uint64_t needed_files; /* descriptors open at once */
  uint64_t file_limit;   /* of this process, raised as far as it may be */
};

/* Fills `capacity` for the file system of the open directory and raises the limit of open files as
 * far as is needed and allowed. Returns 0; -ENOSPC and -EFBIG, unless `ignores_space`, or -EMFILE
 * after a line on stderr that says what to change; or another -errno after a line. */
int free_space_check(struct free_space *space, const struct file_plan *plan, int directory_fd,
                     bool ignores_space);

#endif
