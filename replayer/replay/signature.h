/* Recognises what a target holds, so that it is not overwritten by accident. */
#ifndef TRACEKIT_REPLAY_SIGNATURE_H
#define TRACEKIT_REPLAY_SIGNATURE_H

#include <stdint.h>

/* Sets *name to the first signature found (such as "ext" or "swap"), NULL when there is none.
 * Returns 0 or -errno. */
int signature_find(int fd, uint64_t size_bytes, const char **name);

/* The same for a target in memory; pages that cannot be had are -EIO. The handler of faults must
 * have been set by mapping_guard_faults. */
int signature_find_mapped(const unsigned char *bytes, uint64_t size_bytes, const char **name);

#endif
