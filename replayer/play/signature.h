/* Recognises what a target holds, so that it is not overwritten by accident. */
#ifndef TRACEKIT_PLAY_SIGNATURE_H
#define TRACEKIT_PLAY_SIGNATURE_H

#include <stdint.h>

#define SIGNATURE_NAMES 48U

/* Names of what was found, such as "ext" or "swap", each once. */
struct signature_set {
  uint32_t count;
  const char *names[SIGNATURE_NAMES];
};

/* Sets *found to all signatures of a file or device. Returns 0 or -errno. */
int signature_find(int fd, uint64_t size_bytes, struct signature_set *found);

/* The same for a target in memory; pages that cannot be had are -EIO. The handler of faults must
 * have been set by mapping_guard_faults. */
int signature_find_mapped(const unsigned char *bytes, uint64_t size_bytes,
                          struct signature_set *found);

#endif
