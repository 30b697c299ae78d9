#include <errno.h>
#include <stdlib.h>

#include "model/rival.h"

/* Open CAS (open-cas.com: cache modes, ALRU cleaning, sequential cutoff): lines of 4 KiB, of which
 * the clean one that was used longest ago leaves. A missed read brings its line in (but not in the
 * mode write-only); a write does, too (but not around). Through: both devices get the write. Back
 * and only: NVM gets it, and the line is dirty until it was not used for 120 s of the trace (ALRU),
 * or until no clean line is left; then the request goes by and the 32 oldest are cleaned. A line
 * that gets dirty is a write of metadata. Once no line is free, requests of a stream of 1 MiB and
 * more go by where they miss. Simplified: hits of such a stream are still served, and ALRU's
 * waiting for an idle device is not simulated. */
#define CLEANED_AT_ONCE 32

static int make(struct tk_rival *rival) {
  rival->state = calloc(rival->setup.block_count + 1ul, sizeof(int64_t));
  return rival->state != NULL ? 0 : -ENOMEM;
}

static void release(struct tk_rival *rival) { free(rival->state); }

static uint32_t take_hit(struct tk_rival *rival, const struct rival_piece *piece) {
  const bool is_back = rival->setup.mode == TK_RIVAL_BACK || rival->setup.mode == TK_RIVAL_ONLY;
  rival_use(rival, piece->block, piece->is_write && is_back);
  return !piece->is_write || is_back ? TO_NVM : TO_BASE | TO_NVM;
}

/* Returns whether a missed piece brings its line in. */
static bool is_wanted(struct tk_rival *rival, const struct rival_piece *piece) {
  const uint32_t mode = rival->setup.mode;
  if (mode == (piece->is_write ? TK_RIVAL_AROUND : TK_RIVAL_ONLY))
    return false;
  const bool is_going = piece->is_going && rival->free_count == 0;
  const bool has_room = !is_going && rival_make_room(rival);
  rival->is_short = rival->is_short || (!is_going && !has_room);
  rival->counts.bypassed += !has_room;
  return has_room;
}

static uint32_t take(struct tk_rival *rival, const struct rival_piece *piece) {
  int64_t *used_ns = rival->state;
  used_ns[piece->block] = rival->now_ns;
  if (rival_is_cached(rival, piece->block))
    return take_hit(rival, piece);
  if (!is_wanted(rival, piece))
    return TO_BASE;
  const bool is_through = rival->setup.mode == TK_RIVAL_THROUGH;
  rival_bring(rival, piece->block, piece->is_write && !is_through);
  if (piece->is_write)
    return is_through ? TO_BASE | TO_NVM : TO_NVM;
  rival_background(rival, RIVAL_NVM, piece->block, true);
  return TO_BASE;
}

static void settle(struct tk_rival *rival) {
  const int64_t *used_ns = rival->state;
  for (int left = rival->is_short ? CLEANED_AT_ONCE : 0; left > 0 && rival->dirty.count > 0; left--)
    rival_clean(rival, page_ring_oldest(&rival->dirty, rival->blocks));
  rival->is_short = false;
  while (rival->dirty.count > 0 && rival->setup.stale_ns > 0) {
    const uint32_t oldest = page_ring_oldest(&rival->dirty, rival->blocks);
    if (rival->now_ns - used_ns[oldest] < rival->setup.stale_ns)
      break;
    rival_clean(rival, oldest);
  }
}

const struct rival_policy rival_open_cas = {.flushed = TO_BASE | TO_NVM,
                                            .commit = COMMIT_DIRTIED,
                                            .make = make,
                                            .take = take,
                                            .settle = settle,
                                            .free = release};
