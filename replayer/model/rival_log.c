#include <errno.h>
#include <stdlib.h>

#include "model/rival.h"

/* A separate intent log, as ZFS has it (zpoolconcepts(7): log devices): writes that are forced,
 * that follow a flush, or that are of the journal go to NVM, and a flush waits for NVM alone. Base
 * gets them when they are as old as a transaction group (zfs_txg_timeout, 5 seconds of the trace),
 * or when the log is full, once for each block however often it was written meanwhile. All other
 * writes go to base as they come; one over a logged block ends its time in the log. Simplified: the
 * rest of the pool is the base device as traced, not a copy-on-write layout. */
static int make(struct tk_rival *rival) {
  rival->state = calloc(rival->setup.block_count + 1ul, sizeof(int64_t));
  return rival->state != NULL ? 0 : -ENOMEM;
}

static void release(struct tk_rival *rival) { free(rival->state); }

static uint32_t take(struct tk_rival *rival, const struct rival_piece *piece) {
  int64_t *since_ns = rival->state;
  const bool is_there = rival_is_cached(rival, piece->block);
  if (!piece->is_write)
    return is_there ? TO_NVM : TO_BASE;
  if (!piece->is_sync) {
    if (is_there)
      rival_drop(rival, piece->block);
    return TO_BASE;
  }
  if (is_there)
    return TO_NVM;
  if (rival->free_count == 0)
    rival_write_out(rival, rival->setup.low_percent);
  rival_bring(rival, piece->block, true);
  since_ns[piece->block] = rival->now_ns;
  return TO_NVM;
}

static void settle(struct tk_rival *rival) {
  const int64_t *since_ns = rival->state;
  if (rival->dirty.count == 0)
    return;
  /* All of a group goes when its first block is old enough. */
  const uint32_t oldest = page_ring_oldest(&rival->dirty, rival->blocks);
  if (rival->now_ns - since_ns[oldest] < rival->setup.stale_ns)
    return;
  rival_write_out(rival, 0);
  rival_background_flush(rival);
}

const struct rival_policy rival_log = {
    .flushed = TO_NVM, .make = make, .take = take, .settle = settle, .free = release};
