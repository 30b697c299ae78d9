#include "model/rival_idle.h"

#define PS_PER_NS 1000
#define LONGEST_NS (INT64_MAX / 4 / PS_PER_NS) /* of a gap; sums of work are below it, too */

static int64_t not_negative(int64_t ps) { return ps > 0 ? ps : 0; }

/* Does the next transfers; returns how long they take. */
static int64_t work_off(struct rival_idle *idle, int64_t transfers) {
  const int64_t count = transfers < idle->owed ? transfers : idle->owed;
  const int64_t ps = count < idle->owed ? idle->owed_ps / idle->owed * count : idle->owed_ps;
  idle->owed -= count;
  idle->owed_ps -= ps;
  return ps;
}

void rival_idle_until(struct rival_idle *idle, int64_t now_ns) {
  const int64_t gone_ns = now_ns - idle->seen_ns;
  const int64_t gone_ps = (gone_ns < LONGEST_NS ? gone_ns : LONGEST_NS) * PS_PER_NS;
  const int64_t gap_ps = gone_ps - idle->lag_ps;
  idle->seen_ns = now_ns;
  idle->lag_ps = not_negative(-gap_ps);
  idle->behind_ps = not_negative(idle->behind_ps - gone_ps);
  if (gap_ps <= 0 || idle->owed == 0)
    return;
  const int64_t each_ps = idle->owed_ps / idle->owed;
  const int64_t begun = each_ps > 0 ? (gap_ps + each_ps - 1) / each_ps : idle->owed;
  idle->lag_ps = not_negative(work_off(idle, begun) - gap_ps);
  idle->behind_ps = idle->lag_ps;
}

int64_t rival_idle_serve(struct rival_idle *idle, int64_t base_ps) {
  const int64_t waits_ps = base_ps > 0 ? idle->behind_ps : 0;
  idle->behind_ps -= waits_ps;
  idle->lag_ps += base_ps;
  return waits_ps;
}

void rival_idle_add(struct rival_idle *idle, int64_t ps) {
  idle->owed_ps += ps;
  idle->owed++;
}

int64_t rival_idle_hurry(struct rival_idle *idle, int64_t left) {
  const int64_t ps = idle->owed > left ? work_off(idle, idle->owed - left) : 0;
  idle->lag_ps += ps;
  return ps;
}
