/* The error numbers behind the names that strace prints. */
#ifndef TRACEKIT_STRACE_ERRORS_H
#define TRACEKIT_STRACE_ERRORS_H

#include <stdint.h>

#include "strace/cursor.h"

/* Returns the errno of a name such as ENOENT, or EIO for one that no file system call gives. */
int32_t error_number(struct view name);

#endif
