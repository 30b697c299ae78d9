/* What one placement is charged for, counted instead of priced, and beside it the base device
 * alone. Where requests come one after the other, their time is linear in all prices but those that
 * say which accesses of a disk need a seek; so one pass over a trace prices any devices. */
#ifndef TRACEKIT_MODEL_LEDGER_H
#define TRACEKIT_MODEL_LEDGER_H

#include <stdint.h>

#include "common/export.h"
#include "model/flush_cost.h"
#include "model/placement.h"
#include "model/spindle.h"
#include "model/wide.h"

/* How much of a role's blocks is on NVM. */
enum { TK_PLACED_NONE, TK_PLACED_SOME, TK_PLACED_ALL, TK_PLACED_KINDS };

/* The placements counted. */
enum { TK_LEDGER_ALONE, TK_LEDGER_PLACED, TK_LEDGERS };

struct tk_ledger_setup {
  const int64_t *keys;   /* of the blocks, strictly ascending */
  const uint8_t *on_nvm; /* by block: 1 + the role whose requests find it on NVM, 0: none; must
                            outlive the ledger */
  const struct tk_placement_device *devices;
  const struct tk_spindle *disks; /* whose positions are summed up; must outlive the ledger */
  uint32_t block_count;
  uint32_t device_count;
  uint32_t disk_count;
  uint32_t as_issued;       /* 0: each request as queued; 1: as issued */
  uint8_t placed[TK_ROLES]; /* TK_PLACED_* */
};

/* Parts of requests: on the base device each run of sectors, on NVM all. The first index is 0 for
 * the base device, 1 for NVM, the second 0 for reads, 1 for writes. */
struct tk_ledger_counts {
  int64_t apart[2][2];  /* that begin elsewhere than where the last one on the device ended */
  int64_t joined[2][2]; /* that continue it */
  int64_t sectors[2][2];
  int64_t fua[2];
  int64_t flushes[2][TK_FLUSHES]; /* that reach the device, by what they find there */
};

struct tk_ledger;

/* Makes a ledger. Returns 0, -EINVAL when the setup contradicts itself, or -ENOMEM. */
TK_EXPORT int tk_ledger_new(const struct tk_ledger_setup *setup, struct tk_ledger **ledger);

/* Adds the next requests; returns as tk_placement_add. After a failure only the totals may be read.
 * One thread at a time. */
TK_EXPORT int tk_ledger_add(struct tk_ledger *ledger, const struct tk_placement_rows *rows);

/* Charges what is still queued: after the last rows, or those of a window. Returns as
 * tk_ledger_add. */
TK_EXPORT int tk_ledger_finish(struct tk_ledger *ledger);

/* Begins a trace anew: nothing is counted, nothing continues, no head's place is known. */
TK_EXPORT void tk_ledger_restart(struct tk_ledger *ledger);

/* Copies the totals, and unless `counts` is NULL the counts of both placements and the positions of
 * their heads: TK_LEDGERS rows of disk_count sums. */
TK_EXPORT void tk_ledger_read(const struct tk_ledger *ledger, struct tk_placement_totals *totals,
                              struct tk_ledger_counts *counts, struct tk_wide *position_ps);

/* Frees the ledger; NULL is fine. */
TK_EXPORT void tk_ledger_free(struct tk_ledger *ledger);

#endif
