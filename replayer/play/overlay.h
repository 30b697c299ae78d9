/* Files of overlay file systems: their bytes are those of a file below, which has other numbers. */
#ifndef TRACEKIT_PLAY_OVERLAY_H
#define TRACEKIT_PLAY_OVERLAY_H

#include <stdbool.h>
#include <sys/stat.h>

#include "play/graph.h"

/* Sets *below to the file of the upper directory that has the bytes of the open file `fd`. Returns
 * 1; 0 when the file is on no overlay, when nobody can write to what is below it (a lower layer),
 * or when the upper directory cannot be reached from here; -errno when that cannot be known. */
int overlay_below(int fd, struct stat *below);

/* Returns whether what `name` leads to from the open folder `at` is a file on an overlay with the
 * bytes of a node, or of a file that cannot be told from one. `folder` is the open folder in /proc
 * of a process that sees the overlay. What can be reached neither from here nor from there is none.
 */
bool overlay_is_node(const struct graph *graph, int folder, int at, const char *name);

#endif
