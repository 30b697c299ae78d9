/* The queues of the placements of one nesting: each placement has servers of its own for each
 * traced device and for the NVM, first come, first served. */
#ifndef TRACEKIT_MODEL_FCFS_QUEUES_H
#define TRACEKIT_MODEL_FCFS_QUEUES_H

#include <stdint.h>

#include "model/wide.h"

/* What a job takes on each device in placements from `begin` to before `end`; -1: not there. */
struct piece {
  uint32_t begin;
  uint32_t end;
  int64_t base_ps;
  int64_t nvm_ps;
};

/* What a job is: a whole request of one kind, the flush before a request's data, or these data. */
enum fcfs_part { FCFS_READ, FCFS_WRITE, FCFS_FLUSH, FCFS_PREFLUSH, FCFS_DATA };

struct fcfs_queues;

/* Makes the idle servers of `count` placements: for each device servers[0] of the base device, and
 * servers[1] of the NVM. Returns 0 or -ENOMEM. */
int fcfs_new(uint32_t count, uint32_t devices, const uint32_t servers[2],
             struct fcfs_queues **queues);

/* Lets a job that arrives now, not before the one before, begin on each device when that can; it is
 * done when all parts are. A flush begins when the writes before it have ended on all servers of
 * its device, and takes the one that was free last of those that are free then, as an emulated
 * device (play/emulated_device.c); so do its data, which take their turn as they arrive, and are
 * done no earlier than if they had begun at the end of the flush before them, which was the last
 * job. Returns the time from arrival to then in the first placement; that of a preflush is not
 * added up. */
int64_t fcfs_serve(struct fcfs_queues *queues, uint32_t device, const struct piece *piece,
                   int64_t arrival_ps, enum fcfs_part part);

/* Returns the sum of the times of a placement, and when its last job was done. */
struct tk_wide fcfs_answer_ps(const struct fcfs_queues *queues, uint32_t placement);
int64_t fcfs_done_ps(const struct fcfs_queues *queues, uint32_t placement);

/* Frees the queues; NULL is fine. */
void fcfs_free(struct fcfs_queues *queues);

#endif
