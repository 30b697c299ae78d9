/* Opening below a directory and never out of it: no symbolic link is followed on the way. */
#ifndef TRACEKIT_PLAY_OPEN_BENEATH_H
#define TRACEKIT_PLAY_OPEN_BENEATH_H

#include <sys/types.h>

/* Opens `path`, with O_CLOEXEC. Returns the descriptor or -errno: -ELOOP for a link. A kernel
 * without openat2 (before Linux 5.6) looks at the last component only. */
int open_beneath(int directory_fd, const char *path, int flags, mode_t mode);

#endif
