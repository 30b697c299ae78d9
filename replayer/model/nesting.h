/* Placements of which each contains the one before, and what they have in common. */
#ifndef TRACEKIT_MODEL_NESTING_H
#define TRACEKIT_MODEL_NESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event_simulation.h"
#include "model/fcfs_queues.h"

#define NESTING_WORD_BITS 64u

/* A head that placements have in common: of a traced device those below `member`, down to that of
 * the run after it; of NVM those from `member` to before that of the run after it. */
struct run {
  int64_t sector; /* one past the last one served; -1: none yet */
  uint32_t member;
};

/* The runs of one device. A request is on the base device in the first placements and on NVM in the
 * last ones, so it takes runs off the end and puts one on. */
struct heads {
  struct run *runs;
  uint32_t count;
};

/* What a request takes more from a member on than before it; with queues only. */
struct changes {
  int64_t *base_ps; /* by member */
  int64_t *nvm_ps;
  uint64_t *marks; /* bits of the members that have one */
};

/* A chain of placements in which no role's NVM shrinks. */
struct nesting {
  uint32_t *scenarios; /* its members */
  uint32_t count;      /* of members */
  uint16_t order;
  int64_t *steps_ps;           /* one more than members: each begins where its sum changes */
  uint32_t *reached[TK_ROLES]; /* by point: the first member in which a block of it is on NVM */
  struct heads *heads;         /* one a traced device, then that of NVM */
  uint64_t *written;           /* as heads, a row of bits by member: there is something to flush */
  struct changes changes;
  struct fcfs_queues *queues; /* of members; NULL without queues */
};

/* Puts each scenario into the first nesting that it can continue; `last` and `chosen` have space
 * for all scenarios: the last one of each nesting, and the nesting of each. Returns how many there
 * are. */
uint32_t nesting_choose(const struct tk_simulation_setup *setup, uint32_t *last, uint32_t *chosen);

/* Prepares a nesting whose members are known. Returns 0 or -ENOMEM; nesting_free in both cases. */
int nesting_fill(struct nesting *nesting, const struct tk_simulation_setup *setup);

/* Notes that a request takes so much more from a member on. */
static inline void nesting_change(struct nesting *nesting, uint32_t member, int64_t base_ps,
                                  int64_t nvm_ps) {
  if (nesting->queues == NULL) {
    nesting->steps_ps[member] += base_ps + nvm_ps;
    return;
  }
  nesting->changes.base_ps[member] += base_ps;
  nesting->changes.nvm_ps[member] += nvm_ps;
  nesting->changes.marks[member / NESTING_WORD_BITS] |= UINT64_C(1) << member % NESTING_WORD_BITS;
}

/* Words of a row of bits by member. */
static inline uint32_t nesting_words(const struct nesting *nesting) {
  return nesting->count / NESTING_WORD_BITS + 1;
}

/* Leaves something to flush on a device, or nothing, in the members from `begin` to before `end`.
 */
void nesting_write(struct nesting *nesting, uint32_t device, uint32_t begin, uint32_t end,
                   bool is_written);

/* Says whether there is something to flush on a device in member `begin`, and brings `end` to the
 * first member after it in which that is otherwise, if it comes sooner. */
bool nesting_is_written(const struct nesting *nesting, uint32_t device, uint32_t begin,
                        uint32_t *end);

/* Leaves the head of a traced device at `sector` in the members below `end`. */
static inline void nesting_leave_base(struct heads *heads, uint32_t end, int64_t sector) {
  if (end == 0)
    return;
  while (heads->count > 0 && heads->runs[heads->count - 1].member <= end)
    heads->count--;
  heads->runs[heads->count++] = (struct run){sector, end};
}

/* Leaves the head of NVM at `sector` in the members from `begin` on. */
static inline void nesting_leave_nvm(struct heads *heads, uint32_t begin, int64_t sector) {
  while (heads->count > 0 && heads->runs[heads->count - 1].member >= begin)
    heads->count--;
  heads->runs[heads->count++] = (struct run){sector, begin};
}

/* Frees what it holds; one of zeros is fine. */
void nesting_free(struct nesting *nesting, uint32_t device_count);

#endif
