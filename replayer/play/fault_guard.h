/* Copies between memory of which a page may be missing. */
#ifndef TRACEKIT_PLAY_FAULT_GUARD_H
#define TRACEKIT_PLAY_FAULT_GUARD_H

#include <stddef.h>

/* Copies with `copy`; returns 0, or -EIO when a page cannot be had: a media error, or a file system
 * that is full. One thread at a time; the handler of SIGBUS must have been set by
 * fault_guard_install. */
int fault_guard_copy(void (*copy)(void *to, const void *from, size_t length), void *to,
                     const void *from, size_t length);

/* Makes faults inside of fault_guard_copy errors of it; others still end the program. Returns 0 or
 * -errno. */
int fault_guard_install(void);

#endif
