/* One placement of whole groups, and its exact time when groups move. */
#ifndef TRACEKIT_MODEL_BEST_SET_H
#define TRACEKIT_MODEL_BEST_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "model/best_flush.h"
#include "model/best_trace.h"

/* What a request was before groups moved. */
struct best_change {
  int64_t taken_ps;
  uint32_t number; /* over all streams */
  bool is_based;
};

struct best_set {
  const struct best_trace *trace;
  uint8_t *on;                 /* by group: on NVM */
  uint64_t *based;             /* a bit by request: a part of it is on the base device */
  int64_t *taken_ps;           /* by request: what it takes, but for its transfers */
  uint32_t *touches;           /* requests by group, as numbered over all streams */
  uint64_t *touched;           /* by group and one more: its first one there; NULL: not made */
  uint32_t *moved;             /* groups, since the set was last kept */
  struct best_change *changes; /* of requests since then */
  uint64_t change_count;
  uint32_t moved_count;
  struct best_flushes flushes;
  int64_t role_on[TK_ROLES];
  int64_t blocks;
  int64_t elapsed_ps;
  int64_t kept_ps; /* the time when it was last kept */
  uint64_t looks;  /* at a request, so far */
};

/* Makes a set with nothing on NVM, not yet timed. Returns 0 or -ENOMEM; best_set_free always. */
int best_set_init(struct best_set *set, const struct best_trace *trace);

/* Times what `on` has, and keeps it. */
void best_set_time(struct best_set *set);

/* Notes the requests of each group, which best_set_toggle needs. Returns 0 or -ENOMEM. */
int best_set_link(struct best_set *set);

/* Moves a group to NVM, or back; returns by how much the time changes. A group moves once at most
 * until the set is kept or restored. */
int64_t best_set_toggle(struct best_set *set, uint32_t group);

/* Leaves groups where they have moved. */
void best_set_keep(struct best_set *set);

/* Moves groups to where they were when the set was last kept. */
void best_set_restore(struct best_set *set);

/* Frees what it holds. */
void best_set_free(struct best_set *set);

#endif
