#include "model/rival.h"

/* dm-writecache on a block device (Documentation/admin-guide/device-mapper/writecache.rst, type s
 * in drivers/md/dm-writecache.c): only writes come in, each block of 4 KiB; reads of a block that
 * is there are served from NVM. A block that is written again is changed in place and keeps its
 * age. Above the high watermark the blocks that came first are written to base, with those that
 * follow them there, down to the low watermark, and leave; while that leaves no block free, new
 * ones go to base. A flush or a forced write commits metadata, and a flush goes to both devices at
 * once (num_flush_bios is 2); without one metadata are committed in the background, autocommit_time
 * after the first write or after autocommit_blocks new blocks. Simplified: nothing is written back
 * for being old (max_age is off by default) or because the device is idle. On persistent memory
 * (type p) the kernel writes a new copy once the old one is committed, commits after 64 blocks, and
 * flushes NVM alone. */
static void commit(struct tk_rival *rival) {
  rival->uncommitted = 0;
  rival->written_ns = INT64_MAX;
  rival->counts.background_ps[RIVAL_NVM] += rival_flush_ps(rival, RIVAL_NVM, 0);
  if (rival->is_changed)
    rival->counts.background_ps[RIVAL_NVM] += rival_commit_ps(rival);
}

static void begin(struct tk_rival *rival) {
  if (rival->now_ns - rival->written_ns >= rival->setup.stale_ns)
    commit(rival);
}

static uint32_t take(struct tk_rival *rival, const struct rival_piece *piece) {
  const bool is_there = rival_is_cached(rival, piece->block);
  if (!piece->is_write)
    return is_there ? TO_NVM : TO_BASE;
  /* What is being written back holds its place until base has it. */
  if (!is_there && rival->idle[rival->device].owed + rival->dirty.count >= rival->setup.capacity) {
    rival->counts.bypassed++;
    return TO_BASE;
  }
  if (rival->now_ns < rival->written_ns)
    rival->written_ns = rival->now_ns;
  if (!is_there) {
    rival_bring(rival, piece->block, true);
    rival->uncommitted++;
  }
  return TO_NVM;
}

static void settle(struct tk_rival *rival) {
  if (rival->uncommitted >= rival->setup.commit_blocks)
    commit(rival);
  const uint64_t dirty = rival->dirty.count * UINT64_C(100);
  if (dirty <= (uint64_t)rival->setup.capacity * rival->setup.high_percent)
    return;
  rival_write_out(rival, rival->setup.low_percent);
  rival_background_flush(rival);
  rival->counts.background_ps[RIVAL_NVM] += rival_commit_ps(rival);
}

const struct rival_policy rival_writecache = {.flushed = TO_BASE | TO_NVM,
                                              .commit = COMMIT_FORCED,
                                              .begin = begin,
                                              .take = take,
                                              .settle = settle};
