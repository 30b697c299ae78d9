/* The paths of a plan as the kernel takes them, relative to the directory of the run. */
#ifndef TRACEKIT_PLAY_FILE_PATHS_H
#define TRACEKIT_PLAY_FILE_PATHS_H

#include "play/file_plan.h"

struct file_paths {
  const char **text; /* one a file of the plan, NUL-terminated */
  uint8_t *kinds;    /* enum file_kind of each */
  char *bytes;       /* what they point into */
};

/* Makes the paths of all files; free with file_paths_close. Returns 0, -ENOMEM, or -ENAMETOOLONG
 * after a line on stderr. */
int file_paths_open(struct file_paths *paths, const struct file_plan *plan);

void file_paths_close(struct file_paths *paths);

#endif
