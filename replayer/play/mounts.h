/* Mounts and swap areas, in all mount namespaces. */
#ifndef TRACEKIT_PLAY_MOUNTS_H
#define TRACEKIT_PLAY_MOUNTS_H

#include <stddef.h>

#include "play/graph.h"

/* Looks for a mount of a node. A namespace that we may not look into (another user's) is left to
 * the kernel's exclusive open. Returns 0, 1 with its place in `where`, or -errno. */
int mounts_find(const struct graph *graph, char *where, size_t size);

/* The same for files and devices in use as swap. */
int mounts_find_swap(const struct graph *graph, char *where, size_t size);

/* Cuts a line of /proc into its fields, in place. Returns how many there were, at most `limit`. */
unsigned mounts_cut_fields(char *line, char **fields, unsigned limit);

/* Undoes the \ooo escapes of /proc, in place. */
void mounts_unescape(char *text);

#endif
