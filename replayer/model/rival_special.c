#include <errno.h>
#include <stdlib.h>

#include "model/rival.h"

/* A special allocation class (zpoolconcepts(7), zfsprops(7): special_small_blocks): not a cache but
 * a place, decided block by block when it is written. Metadata go to NVM while it has space, data
 * of requests that are small enough while less than 75 % of it is used (the rest is metadata's:
 * zfs_special_class_metadata_reserve_pct), all else to base; what was elsewhere before is free. A
 * block that is first read lies where it would have been written: the pool had its class from the
 * start. Simplified: metadata are what the trace marks as such; a request's length stands for the
 * size of ZFS's block; all blocks stay where the trace has them, without copy-on-write, checksums
 * or mirrors; journal and swap, which ZFS has as intent log and volume, are on base. */
static int make(struct tk_rival *rival) {
  rival->state = calloc(rival->setup.block_count + 1ul, sizeof(uint8_t));
  return rival->state != NULL ? 0 : -ENOMEM;
}

static void release(struct tk_rival *rival) { free(rival->state); }

static bool has_space(const struct tk_rival *rival, const struct rival_piece *piece) {
  const uint64_t used = rival->dirty.count * UINT64_C(100);
  const uint64_t of_data = (uint64_t)rival->setup.capacity * rival->setup.high_percent;
  return rival->free_count > 0 && (piece->is_meta || used < of_data);
}

static uint32_t take(struct tk_rival *rival, const struct rival_piece *piece) {
  uint8_t *is_known = rival->state;
  const bool was_known = is_known[piece->block] != 0;
  const bool is_there = rival_is_cached(rival, piece->block);
  const bool is_file = piece->role != TK_ROLE_JOURNAL && piece->role != TK_ROLE_SWAP;
  const bool is_special = is_file && (piece->is_meta || piece->is_small);
  is_known[piece->block] = 1;
  if (is_there && (is_special || !piece->is_write))
    return TO_NVM;
  if (is_there)
    rival_drop(rival, piece->block);
  const bool is_placed_now = piece->is_write || !was_known;
  if (!is_special || !is_placed_now || !has_space(rival, piece))
    return TO_BASE;
  rival_bring(rival, piece->block, true);
  return TO_NVM;
}

const struct rival_policy rival_special = {
    .flushed = TO_BASE | TO_NVM, .make = make, .take = take, .free = release};
