#include "model/best_search.h"

#include <stdlib.h>
#include <string.h>

#define MOST 64u /* groups that one exchange may move */

/* Groups by what moving them changes: those that may come, then those that may go. */
struct market {
  struct best_value *values;
  uint32_t coming;
  uint32_t going; /* the end of those that may go */
  uint32_t next;  /* of these the first not gone */
};

void best_search_fill(struct best_set *set, int64_t blocks, const double *values,
                      struct best_value *space) {
  const struct best_trace *trace = set->trace;
  for (uint32_t group = 0; group < trace->groups; group++)
    space[group] = (struct best_value){values[group], group};
  best_values_sort(space, trace->groups);
  memset(set->on, 0, trace->groups);
  for (uint32_t place = 0; place < trace->groups && space[place].value >= 0; place++) {
    const int64_t size = best_blocks_of(trace, space[place].group);
    if (size > blocks)
      continue;
    set->on[space[place].group] = 1;
    blocks -= size;
  }
}

static bool is_spent(const struct best_set *set, uint64_t end) { return set->looks >= end; }

/* Tries each group for itself: what it would save a block if it came, or lose if it went. */
static bool look_around(struct best_set *set, struct market *market, uint64_t end) {
  const struct best_trace *trace = set->trace;
  uint32_t low = 0;
  uint32_t high = trace->groups;
  for (uint32_t group = 0; group < trace->groups; group++) {
    if (is_spent(set, end))
      return false;
    const bool was_on = set->on[group];
    const double change = (double)best_set_toggle(set, group) / best_blocks_of(trace, group);
    best_set_restore(set);
    if (was_on)
      market->values[--high] = (struct best_value){-change, group};
    else if (change < 0)
      market->values[low++] = (struct best_value){-change, group};
  }
  /* The losses are negative: what loses least comes first in falling order, too. */
  for (uint32_t i = high, j = trace->groups; i + 1 < j; i++) {
    const struct best_value one = market->values[i];
    market->values[i] = market->values[--j];
    market->values[j] = one;
  }
  best_values_sort(market->values, low);
  best_values_sort(market->values + high, trace->groups - high);
  market->coming = low;
  market->going = trace->groups;
  market->next = high;
  return true;
}

/* Lets a group come, and others go until all fit; undoes that unless it saves time. */
static bool exchange(struct best_set *set, struct market *market, uint32_t group, int64_t blocks) {
  uint32_t next = market->next;
  int64_t change_ps = best_set_toggle(set, group);
  while (set->blocks > blocks && change_ps < 0 && next < market->going && set->moved_count < MOST) {
    const uint32_t other = market->values[next++].group;
    if (set->on[other])
      change_ps += best_set_toggle(set, other);
  }
  const bool is_better = change_ps < 0 && set->blocks <= blocks;
  if (is_better) {
    market->next = next;
    best_set_keep(set);
  } else {
    best_set_restore(set);
  }
  return is_better;
}

/* Lets groups go that cost time where they are. */
static bool drop(struct best_set *set, struct market *market, uint64_t end) {
  bool is_better = false;
  for (uint32_t place = market->next; place < market->going; place++) {
    const struct best_value *one = &market->values[place];
    if (one->value <= 0 || is_spent(set, end))
      break;
    if (best_set_toggle(set, one->group) < 0) {
      is_better = true;
      best_set_keep(set);
    } else {
      best_set_restore(set);
    }
  }
  return is_better;
}

void best_search_climb(struct best_set *set, int64_t blocks, uint64_t looks,
                       struct best_value *space) {
  const uint64_t end = set->looks + looks;
  struct market market = {.values = space};
  bool is_better = true;
  while (is_better && look_around(set, &market, end)) {
    is_better = drop(set, &market, end);
    for (uint32_t place = 0; place < market.coming && !is_spent(set, end); place++)
      is_better |= exchange(set, &market, market.values[place].group, blocks);
  }
}
