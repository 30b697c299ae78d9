#include "model/rival.h"

/* Compressed memory for swap: zram with a swap partition of lower priority, and zswap before one
 * (Documentation/admin-guide/blockdev/zram.rst, mm/zswap.rst). A page that is swapped out is
 * compressed into memory while there is space, and read from there. Without space it goes to base:
 * zram's pages stay where they are (low_percent 100), zswap then writes those that were used
 * longest ago to base, page by page, until the pool is down to accept_threshold_percent. What is
 * not swap goes to base, and flushes concern base alone. Simplified: all pages compress alike, so
 * the capacity is in pages; when a page of swap is freed is not in a trace, so it stays until it is
 * written again; a page that was read stays, too (without exclusive loads); the memory is missing
 * to nobody, so the trace swaps as before. */
static uint32_t take(struct tk_rival *rival, const struct rival_piece *piece) {
  if (piece->role != TK_ROLE_SWAP)
    return TO_BASE;
  if (rival_is_cached(rival, piece->block)) {
    rival_use(rival, piece->block, piece->is_write);
    return TO_NVM;
  }
  if (!piece->is_write)
    return TO_BASE;
  if (rival->free_count == 0) {
    rival->counts.bypassed++;
    rival->is_short = true;
    return TO_BASE;
  }
  rival_bring(rival, piece->block, true);
  return TO_NVM;
}

static void settle(struct tk_rival *rival) {
  const uint64_t most = (uint64_t)rival->setup.capacity * rival->setup.low_percent;
  while (rival->is_short && rival->dirty.count * UINT64_C(100) > most) {
    const uint32_t block = page_ring_oldest(&rival->dirty, rival->blocks);
    rival_clean(rival, block);
    rival_drop(rival, block);
  }
  rival->is_short = false;
}

const struct rival_policy rival_memory = {.flushed = TO_BASE, .take = take, .settle = settle};
