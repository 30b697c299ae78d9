/* The mounts that this process sees. */
#ifndef TRACEKIT_PLAY_OWN_MOUNTS_H
#define TRACEKIT_PLAY_OWN_MOUNTS_H

#include <stdint.h>

#define OWN_MOUNTS_TYPE_BYTES 64U

/* One line of mountinfo. */
struct own_mount {
  uint64_t id;
  const char *root;  /* of the file system, that is seen at the mount point */
  const char *point; /* where it is mounted */
  const char *type;
  const char *options; /* of the file system, with commas between */
};

/* Calls `visit` for each mount until it returns something else than 0; its texts are valid that
 * long. Returns what it returned last, or -errno when the mounts cannot be read. */
int own_mounts_visit(int (*visit)(void *context, const struct own_mount *mount), void *context);

/* Writes the type of the file system of what is open as `fd`, "" where the kernel does not say it.
 */
void own_mounts_type(int fd, char type[OWN_MOUNTS_TYPE_BYTES]);

#endif
