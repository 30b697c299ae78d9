/* Processes that have a node of a target's graph open or mapped, as far as we may look. */
#ifndef TRACEKIT_PLAY_OPENERS_H
#define TRACEKIT_PLAY_OPENERS_H

#include <stdbool.h>
#include <stdint.h>

#include "play/graph.h"

/* What was found. */
struct openers {
  int pid;         /* the first one; 0: none */
  bool is_mapped;  /* by a mapping */
  uint32_t unseen; /* processes, of others than us, that we may not look into */
};

/* Looks for another process that may write to a node: that has it open for writing, or mapped
 * shared and writable. With `any` one that only reads counts, too. The kernel's own openings are in
 * no process. Returns 0 or -errno. */
int openers_find(const struct graph *graph, bool any, struct openers *found);

#endif
