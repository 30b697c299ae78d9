#include "play/pace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "play/block_plan.h"

/* A request waits for one at most BLOCK_PLAN_AFTER_MAX before it: that one's place must still be
 * its own.
 */
#define RING (2 * (uint64_t)BLOCK_PLAN_AFTER_MAX)

const char *const pace_words[] = {"trace", "fast", "closed", NULL};
const char *const pace_late_words[] = {"catch-up", "slip", "drop", NULL};

int pace_open(struct pace *pace, const struct pace_rules *rules) {
  *pace = (struct pace){.rules = *rules};
  if (rules->kind != PACE_CLOSED)
    return 0;
  pace->done_ns = malloc(RING * sizeof *pace->done_ns);
  if (pace->done_ns == NULL)
    return -ENOMEM;
  memset(pace->done_ns, 0, RING * sizeof *pace->done_ns); /* touches every page before the run */
  return 0;
}

bool pace_due(const struct pace *pace, const struct block_record *record, uint64_t position,
              uint64_t *due_ns) {
  *due_ns = 0;
  if (pace->rules.kind == PACE_FAST)
    return true;
  /* What it waited for may stand before the part of the plan that runs. */
  bool is_free = record->after == 0 || record->after > position;
  if (pace->rules.kind == PACE_TRACE || is_free) {
    *due_ns = record->intended_ns + pace->slipped_ns;
    return true;
  }
  uint64_t done = pace->done_ns[(position - record->after) % RING];
  *due_ns = done - 1 + record->think_ns;
  return done != 0;
}

uint64_t pace_go_ns(const struct pace *pace, uint64_t due_ns) {
  return due_ns > pace->rules.lead_ns ? due_ns - pace->rules.lead_ns : 0;
}

uint64_t pace_lag_ns(const struct pace *pace, uint64_t due_ns, uint64_t elapsed_ns) {
  uint64_t queued_ns = elapsed_ns + pace->rules.lead_ns;
  return pace->rules.kind != PACE_FAST && queued_ns > due_ns ? queued_ns - due_ns : 0;
}

bool pace_drops(struct pace *pace, uint64_t lag_ns) {
  if (pace->rules.kind != PACE_TRACE || lag_ns <= pace->rules.late_limit_ns)
    return false;
  if (pace->rules.late == PACE_SLIP)
    pace->slipped_ns += lag_ns;
  return pace->rules.late == PACE_DROP;
}

void pace_begin(struct pace *pace, uint64_t position) {
  if (pace->done_ns == NULL)
    return;
  pace->done_ns[position % RING] = 0;
  pace->begun = position + 1;
}

void pace_end(struct pace *pace, uint64_t position, uint64_t complete_ns) {
  /* Of one that took so long that its place is another's nobody will ask: what waits for it is
   * waiting already. */
  if (pace->done_ns != NULL && pace->begun - position <= RING)
    pace->done_ns[position % RING] = complete_ns + 1;
}

void pace_close(struct pace *pace) {
  free(pace->done_ns);
  pace->done_ns = NULL;
}
