/* The paths of a plan as the kernel takes them, relative to the directory of the run. */
#ifndef TRACEKIT_FILES_PATHS_H
#define TRACEKIT_FILES_PATHS_H

#include "files/plan.h"

struct paths {
  const char **text; /* one a file of the plan, NUL-terminated */
  uint8_t *kinds;    /* enum plan_kind of each */
  char *bytes;       /* what they point into */
};

/* Makes the paths of all files; free with paths_close. Returns 0, -ENOMEM, or -ENAMETOOLONG after a
 * line on stderr. */
int paths_open(struct paths *paths, const struct plan *plan);

void paths_close(struct paths *paths);

#endif
