#include "play/lanes.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "play/overlap.h"

#define STRIPE_BITS 15U /* sectors: 16 MiB */

/* Requests in flight on the stripes of one lane. All may look, one at a time: of requests that
 * touch several lanes. */
struct set {
  _Alignas(64) _Atomic bool is_taken;
  struct overlap *overlap;
};

struct reached {
  _Alignas(64) _Atomic uint64_t turns; /* before which all that a lane owns is submitted */
};

struct lanes {
  uint32_t count;
  _Atomic bool has_given_up;
  _Alignas(64) _Atomic uint64_t turns; /* ordered requests that are submitted */
  struct reached reached[LANES_MAX];
  struct set sets[LANES_MAX];
};

/* Not in turn: stripes of equal distance, such as those of block groups, would be one lane's. */
static uint32_t lane_of(uint16_t target, uint64_t stripe, uint32_t count) {
  uint64_t hash = ((stripe << 6 | target) + 1) * UINT64_C(0x9E3779B97F4A7C15);
  return (uint32_t)((hash >> 32) * count >> 32);
}

uint16_t lanes_of(const struct block_record *record, uint32_t count) {
  if (record->length_sectors == 0)
    return 1;
  uint64_t first = record->sector >> STRIPE_BITS;
  uint64_t last = (record->sector + record->length_sectors - 1) >> STRIPE_BITS;
  unsigned lanes = 0;
  const unsigned all = (1U << count) - 1;
  for (uint64_t stripe = first; stripe <= last && lanes != all; stripe++)
    lanes |= 1U << lane_of(record->target, stripe, count);
  return (uint16_t)lanes;
}

uint32_t lanes_owner(uint16_t lanes) { return (uint32_t)__builtin_ctz(lanes); }

bool lanes_is_ordered(const struct block_record *record, uint16_t lanes) {
  bool is_shared = (lanes & (lanes - 1)) != 0;
  return is_shared || record->operation == BLOCK_FLUSH || (record->flags & BLOCK_PREFLUSH) != 0;
}

struct lanes *lanes_open(uint32_t count, uint32_t depth) {
  struct lanes *lanes = aligned_alloc(_Alignof(struct lanes), sizeof *lanes);
  if (lanes == NULL)
    return NULL;
  memset(lanes, 0, sizeof *lanes);
  lanes->count = count;
  for (uint32_t i = 0; i < count; i++) {
    lanes->sets[i].overlap = overlap_open(count * depth);
    if (lanes->sets[i].overlap == NULL) {
      lanes_close(lanes);
      return NULL;
    }
  }
  return lanes;
}

void lane_open(struct lane *lane, struct lanes *all, uint32_t number, uint32_t depth) {
  *lane = (struct lane){.all = all, .number = number, .first_slot = (uint64_t)number * depth};
}

bool lane_must_wait(struct lane *lane, enum lane_order order) {
  struct lanes *all = lane->all;
  if (order == LANE_FREE)
    return false;
  if (order == LANE_OTHERS_TURN) {
    /* Release: whoever sees it submits after this lane's requests. */
    if (lane->has_reached)
      atomic_store_explicit(&all->reached[lane->number].turns, lane->turns + 1,
                            memory_order_release);
    lane->has_reached = true;
    return atomic_load_explicit(&all->turns, memory_order_acquire) <= lane->turns;
  }
  for (uint32_t i = 0; i < all->count; i++)
    if (i != lane->number &&
        atomic_load_explicit(&all->reached[i].turns, memory_order_acquire) <= lane->turns)
      return true;
  /* The others' requests are there: this one's time is read after theirs. */
  bool is_second = lane->has_reached;
  lane->has_reached = true;
  return !is_second;
}

void lane_pass(struct lane *lane, enum lane_order order) {
  if (order == LANE_FREE)
    return;
  lane->turns++;
  lane->has_reached = false;
  lane->has_turned = order == LANE_OWN_TURN;
}

void lane_tell(struct lane *lane) {
  if (lane->has_turned)
    atomic_store_explicit(&lane->all->turns, lane->turns, memory_order_release);
  lane->has_turned = false;
}

static struct overlap *take(struct lane *lane, uint32_t number) {
  struct set *set = &lane->all->sets[number];
  while (atomic_exchange_explicit(&set->is_taken, true, memory_order_acquire)) {
    /* A lane has it for a few steps. */
  }
  return set->overlap;
}

static void give_back(struct lane *lane, uint32_t number) {
  atomic_store_explicit(&lane->all->sets[number].is_taken, false, memory_order_release);
}

bool lane_find(struct lane *lane, uint16_t touched, const struct block_record *record) {
  bool is_found = false;
  for (unsigned left = touched; left != 0 && !is_found; left &= left - 1) {
    uint32_t number = (uint32_t)__builtin_ctz(left);
    is_found = overlap_find(take(lane, number), record);
    give_back(lane, number);
  }
  return is_found;
}

bool lane_enter(struct lane *lane, uint16_t touched, uint32_t slot,
                const struct block_record *record) {
  bool is_found = false;
  for (unsigned left = touched; left != 0; left &= left - 1) {
    uint32_t number = (uint32_t)__builtin_ctz(left);
    is_found |= overlap_enter(take(lane, number), (uint32_t)lane->first_slot + slot, record);
    give_back(lane, number);
  }
  return is_found;
}

void lane_remove(struct lane *lane, uint16_t touched, uint32_t slot) {
  for (unsigned left = touched; left != 0; left &= left - 1) {
    uint32_t number = (uint32_t)__builtin_ctz(left);
    overlap_remove(take(lane, number), (uint32_t)lane->first_slot + slot);
    give_back(lane, number);
  }
}

void lanes_give_up(struct lanes *lanes) {
  atomic_store_explicit(&lanes->has_given_up, true, memory_order_relaxed);
}

bool lanes_have_given_up(const struct lanes *lanes) {
  return atomic_load_explicit(&lanes->has_given_up, memory_order_relaxed);
}

void lanes_close(struct lanes *lanes) {
  if (lanes == NULL)
    return;
  for (uint32_t i = 0; i < lanes->count; i++)
    overlap_close(lanes->sets[i].overlap);
  free(lanes);
}
