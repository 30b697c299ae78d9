/* Processes that have a node of a target's graph open, mapped or registered, as far as we may
 * look. */
#ifndef TRACEKIT_PLAY_OPENERS_H
#define TRACEKIT_PLAY_OPENERS_H

#include <stdbool.h>
#include <stdint.h>

#include "play/graph.h"

/* How a process may write to a node. */
enum opener {
  OPENER_NONE,
  OPENER_OPEN,   /* by a descriptor */
  OPENER_MAPPED, /* by a mapping */
  OPENER_MAYBE, /* by what it holds without a descriptor: a node, or what cannot be told from one */
};

/* What was found. */
struct openers {
  int pid;          /* the first one; 0: none */
  enum opener how;  /* it may write */
  uint32_t unseen;  /* processes, of others than us, that we may not look into */
  bool is_confined; /* there may be others, which this one is not shown at all */
};

/* Looks for another process that may write to a node: that has it open for writing, or mapped
 * shared so that it may become writable, or in a ring or a socket's queue. With `any` one that only
 * reads counts, too. The kernel's own openings are in no process. Returns 0 or -errno. */
int openers_find(const struct graph *graph, bool any, struct openers *found);

#endif
