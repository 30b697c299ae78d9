/* What groups save at most on a device where a request depends on the one before it.
 *
 * The parts of requests (a request and one of its groups) that stay on the base device are a path
 * from part to part, which costs what the head does in between. Each part has a share of the cost:
 * a path gets back the shares of the parts that it has, and pays those of none; a group saves the
 * shares of all its parts once it is on NVM. The cheapest path, whatever groups it cuts through,
 * and the groups that save most, whatever path that leaves, together take no longer than any
 * placement does (Lagrangian decomposition; Guignard and Kim, Mathematical Programming 39, 1987).
 * Shares where both agree make that bound large: a part on the path whose group has left gets less,
 * one of neither gets more (Held, Wolfe and Crowder, Mathematical Programming 6, 1974). */
#ifndef TRACEKIT_MODEL_BEST_PATH_H
#define TRACEKIT_MODEL_BEST_PATH_H

#include <stdint.h>

#include "model/best_bound.h"

struct best_path {
  const struct best_trace *trace;
  struct best_bound bound; /* of the shares as they are */
  struct best_bound best;  /* of those with the largest bound */
  float *shares;           /* by part, in ps */
  float *steps;            /* by part: where to the share goes */
  double *costs_ps;        /* by part: of the cheapest path that ends there */
  uint32_t *before;        /* by part: the one before it on that path, from 1; 0: none */
  uint32_t *begins;        /* by part: the place where it begins; 0: no part ends there */
  uint32_t *ends;          /* by part: the place where it ends */
  double *place_ps;        /* by place, from 1: of the cheapest path that ends there */
  uint32_t *place_parts;   /* by place: the last part of that */
  uint8_t *is_passed;      /* by part: on the cheapest path */
  uint8_t *is_in;          /* by group: among those that save most */
  uint32_t places;
  int64_t best_ps;
  int64_t blocks;  /* the capacity of the rounds before; -1: none */
  int64_t most_ps; /* the largest bound of it */
  double reach;    /* how far the next step goes, as a part of the way to the target */
  uint32_t tries;  /* rounds since there was a larger bound */
};

/* Makes shares as the traced order has them. Returns 0 or -ENOMEM; best_path_free in both cases. */
int best_path_init(struct best_path *path, const struct best_trace *trace);

/* Makes the shares anew, for other prices. */
void best_path_reset(struct best_path *path);

/* Moves shares for so many rounds towards the largest bound of a capacity, which cannot exceed
 * `target_ps`. Returns the largest bound of these rounds, to which `best` belongs. */
int64_t best_path_tighten(struct best_path *path, int64_t blocks, int64_t target_ps,
                          uint32_t rounds);

/* Frees what it holds; fine where all is zero. */
void best_path_free(struct best_path *path);

#endif
