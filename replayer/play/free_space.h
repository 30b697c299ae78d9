/* Whether a run can go through at all: space, inodes, descriptors and the largest
 * file, asked before it starts. */
#ifndef TRACEKIT_PLAY_FREE_SPACE_H
#define TRACEKIT_PLAY_FREE_SPACE_H

#include <stdbool.h>

#include "play/file_plan.h"
#include "play/run_folder.h"

struct free_space {
  uint64_t needed_bytes; /* of the plan, with a block a file */
  uint64_t free_bytes;   /* for this user; UINT64_MAX: no limit known, as for the next ones */
  uint64_t quota_bytes;  /* left of this user's */
  uint64_t needed_inodes;
  uint64_t free_inodes;
  uint64_t longest_bytes; /* of a file, as far as the plan shows it */
  uint64_t longest_limit; /* of this process */
  uint64_t needed_files;  /* descriptors open at once */
  uint64_t file_limit;    /* of this process, raised as far as it may be */
};

/* Fills `space` for the file system of the open directory and raises the limit of open files as far
 * as is needed and allowed. `folder` says what will be removed before. Returns 0; -ENOSPC and
 * -EFBIG, unless `ignores_space`, or -EMFILE after a line on stderr that says what to change; or
 * another -errno after a line. */
int free_space_check(struct free_space *space, const struct file_plan *plan,
                     const struct run_folder *folder, bool ignores_space);

#endif
