/* Opening below a directory and never out of it: no symbolic link is followed on the way. */
#ifndef TRACEKIT_FILES_BENEATH_H
#define TRACEKIT_FILES_BENEATH_H

#include <stdint.h>
#include <sys/types.h>

#include "files/plan.h"

/* Opens `path`, with O_CLOEXEC. Returns the descriptor or -errno: -ELOOP for a link. A kernel
 * without openat2 (before Linux 5.6) looks at the last component only. */
int beneath_open(int directory_fd, const char *path, int flags, mode_t mode);

/* Reads all entries of an open directory from its start. Returns their number or -errno. */
int64_t beneath_list(int fd, const struct plan_record *record);

#endif
