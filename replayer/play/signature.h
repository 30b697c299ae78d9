/* Recognises what a target holds, so that it is not overwritten by accident. */
#ifndef TRACEKIT_PLAY_SIGNATURE_H
#define TRACEKIT_PLAY_SIGNATURE_H

#include <stddef.h>
#include <stdint.h>

#define SIGNATURE_NAMES 48U
#define SIGNATURE_NAME_BYTES 32U

/* Names of what was found, such as "ext" or "swap", each once. */
struct signature_set {
  uint32_t count;
  char names[SIGNATURE_NAMES][SIGNATURE_NAME_BYTES];
};

/* Sets *found to all signatures of a file or device that the table knows. `fd` may be open with
 * O_DIRECT. Returns 0 or -errno. */
int signature_find(int fd, uint64_t size_bytes, struct signature_set *found);

/* The same for a target in memory; pages that cannot be had are -EIO. The handler of faults must
 * have been set by mapping_guard_faults. */
int signature_find_mapped(const unsigned char *bytes, uint64_t size_bytes,
                          struct signature_set *found);

/* Adds a name, unless it is there; a set of SIGNATURE_NAMES takes no more. */
void signature_add(struct signature_set *found, const char *name);

#endif
