#include "model/rival.h"

/* dm-writecache (Documentation/admin-guide/device-mapper/writecache.rst): only writes come in, each
 * block of 4 KiB; reads of a block that is there are served from NVM. Above the high watermark the
 * blocks that were written longest ago are written to base, with those that follow them there, down
 * to the low watermark, and leave. A flush or a forced write commits metadata and waits for NVM
 * alone. Simplified: a block that is written again is changed in place, where the kernel writes a
 * new copy once the old one is committed; nothing is written back for being old (max_age is off by
 * default) or because the device is idle. */
static uint32_t take(struct tk_rival *rival, const struct rival_piece *piece) {
  if (!piece->is_write)
    return rival_is_cached(rival, piece->block) ? TO_NVM : TO_BASE;
  if (rival_is_cached(rival, piece->block)) {
    rival_use(rival, piece->block, true);
    return TO_NVM;
  }
  /* A request larger than what is free waits for the watermark's work. */
  if (rival->free_count == 0)
    rival_write_out(rival, rival->setup.low_percent);
  rival_bring(rival, piece->block, true);
  return TO_NVM;
}

static void settle(struct tk_rival *rival) {
  const uint64_t dirty = rival->dirty.count * UINT64_C(100);
  if (dirty <= (uint64_t)rival->setup.capacity * rival->setup.high_percent)
    return;
  rival_write_out(rival, rival->setup.low_percent);
  rival->counts.background_ps[RIVAL_BASE] += rival->setup.flush_ps[RIVAL_BASE];
  rival->counts.background_ps[RIVAL_NVM] += rival_commit_ps(rival);
}

const struct rival_policy rival_writecache = {
    .flushed = TO_NVM, .commit = COMMIT_FORCED, .take = take, .settle = settle};
