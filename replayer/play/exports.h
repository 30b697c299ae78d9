/* What the kernel itself serves to others: targets of SCSI and NVMe, disks of USB gadgets. */
#ifndef TRACEKIT_PLAY_EXPORTS_H
#define TRACEKIT_PLAY_EXPORTS_H

#include <stddef.h>

#include "play/graph.h"

/* Looks for an export of a node in configfs. Returns 0, 1 with its place in `where`, or -errno with
 * the place that cannot be looked at. */
int exports_find(const struct graph *graph, char *where, size_t size);

#endif
