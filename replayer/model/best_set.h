/* One placement of whole groups, and its exact time when groups move. */
#ifndef TRACEKIT_MODEL_BEST_SET_H
#define TRACEKIT_MODEL_BEST_SET_H

#include <stdint.h>

#include "model/best_trace.h"

struct best_set {
  const struct best_trace *trace;
  uint8_t *on;       /* by group: on NVM */
  uint64_t *based;   /* a bit by request: a part of it is on the base device */
  uint32_t *touches; /* requests by group, as numbered over all streams; NULL: not made */
  uint64_t *touched; /* by group and one more: its first one there */
  int64_t role_on[TK_ROLES];
  int64_t blocks;
  int64_t elapsed_ps;
  uint64_t looks; /* at a request, so far */
};

/* Makes a set with nothing on NVM, not yet timed. Returns 0 or -ENOMEM; best_set_free always. */
int best_set_init(struct best_set *set, const struct best_trace *trace);

/* Times what `on` has. */
void best_set_time(struct best_set *set);

/* Notes the requests of each group, which best_set_toggle needs. Returns 0 or -ENOMEM. */
int best_set_link(struct best_set *set);

/* Moves a group to NVM, or back; returns by how much the time changes. */
int64_t best_set_toggle(struct best_set *set, uint32_t group);

/* Frees what it holds. */
void best_set_free(struct best_set *set);

#endif
