#include "play/lead.h"

#include <string.h>

void lead_open(struct lead *lead, uint64_t first_ns) { *lead = (struct lead){.ns = first_ns}; }

void lead_range_merge(struct lead_range *range, const struct lead_range *other) {
  range->requests += other->requests;
  if (other->most_ns == 0)
    return;
  if (range->most_ns == 0 || other->least_ns < range->least_ns)
    range->least_ns = other->least_ns;
  if (other->most_ns > range->most_ns)
    range->most_ns = other->most_ns;
}

/* Returns where in the ascending order a value belongs. */
static uint32_t place_of(const struct lead *lead, uint64_t lag_ns) {
  uint32_t place = 0;
  while (place < lead->count && lead->sorted_ns[place] < lag_ns)
    place++;
  return place;
}

static void forget_oldest(struct lead *lead) {
  uint32_t place = place_of(lead, lead->lags_ns[lead->next]);
  lead->count--;
  memmove(&lead->sorted_ns[place], &lead->sorted_ns[place + 1],
          (lead->count - place) * sizeof *lead->sorted_ns);
}

static void add(struct lead *lead, uint64_t lag_ns) {
  if (lead->count == LEAD_WINDOW)
    forget_oldest(lead);
  uint32_t place = place_of(lead, lag_ns);
  memmove(&lead->sorted_ns[place + 1], &lead->sorted_ns[place],
          (lead->count - place) * sizeof *lead->sorted_ns);
  lead->sorted_ns[place] = lag_ns;
  lead->count++;
  lead->lags_ns[lead->next] = lag_ns;
  lead->next = (lead->next + 1) % LEAD_WINDOW;
  lead->range.requests++;
}

static void take_median(struct lead *lead) {
  uint64_t median_ns = lead->sorted_ns[(lead->count - 1) / 2];
  lead->ns = median_ns < LEAD_MOST_NS ? median_ns : LEAD_MOST_NS;
  const struct lead_range now = {.least_ns = lead->ns, .most_ns = lead->ns};
  lead_range_merge(&lead->range, &now);
}

void lead_follow(struct lead *lead, uint64_t submit_ns, uint32_t requests,
                 const uint64_t *queued_ns, uint32_t count) {
  uint32_t known = requests == count ? count : requests > 0 && count > 0;
  for (uint32_t i = 0; i < known; i++)
    if (queued_ns[i] >= submit_ns) /* else of something that was submitted again */
      add(lead, queued_ns[i] - submit_ns);
  if (known > 0 && lead->count >= LEAD_FEWEST)
    take_median(lead);
}
