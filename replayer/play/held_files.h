/* What a process holds without a descriptor: files that are registered in an io_uring, and those
 * that are on their way through a socket. */
#ifndef TRACEKIT_PLAY_HELD_FILES_H
#define TRACEKIT_PLAY_HELD_FILES_H

#include <sys/types.h>

#include "play/graph.h"
#include "play/rings.h"

enum held_files {
  HELD_NONE,
  HELD_RING,  /* a ring, in which none is registered that could be a node */
  HELD_MAYBE, /* a node, or what cannot be told from one */
};

/* Looks at what a process holds by one of its descriptors, of which `mode` is stat's st_mode.
 * `folder` is a descriptor of its folder in /proc. Sets *report when it is a ring. */
enum held_files held_files_look(const struct graph *graph, int folder, const char *descriptor,
                                mode_t mode, struct rings_report *report);

#endif
