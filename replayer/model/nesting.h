/* Placements of which each contains the one before, and what they have in common. */
#ifndef TRACEKIT_MODEL_NESTING_H
#define TRACEKIT_MODEL_NESTING_H

#include <stdint.h>

#include "model/event_simulation.h"
#include "model/fcfs_queues.h"

/* Placements below `end`, down to the next run's, have their head at `sector`. */
struct run {
  int64_t sector;
  uint32_t end;
};

/* The runs of one device, the first placements' last. */
struct heads {
  struct run *runs;
  uint32_t count;
};

/* A chain of placements in which no role's NVM shrinks. */
struct nesting {
  uint32_t *scenarios; /* its members */
  uint32_t count;      /* of members */
  uint16_t order;
  int64_t *steps_ps;           /* one more than members: each begins where its sum changes */
  uint32_t *reached[TK_ROLES]; /* by point: the first member in which a block of it is on NVM */
  struct heads *heads;         /* one a device */
  struct fcfs_queues *queues;  /* of members; NULL without queues */
};

/* Puts each scenario into the first nesting that it can continue; `last` and `chosen` have space
 * for all scenarios: the last one of each nesting, and the nesting of each. Returns how many there
 * are. */
uint32_t nesting_choose(const struct tk_simulation_setup *setup, uint32_t *last, uint32_t *chosen);

/* Prepares a nesting whose members are known. Returns 0 or -ENOMEM; nesting_free in both cases. */
int nesting_fill(struct nesting *nesting, const struct tk_simulation_setup *setup);

/* Frees what it holds; one of zeros is fine. */
void nesting_free(struct nesting *nesting, uint32_t device_count);

#endif
