#include "replay/range.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "replay/diag.h"

#define GRAIN_SECTORS 8U /* scaled addresses are no finer than 4 KiB, unless the plan is */

/* What of a target is used: its whole sectors where they are larger than the plan's. */
static uint64_t usable_bytes(const struct target *target) {
  return target->is_direct ? target->size_bytes - target->size_bytes % target->align_bytes
                           : target->size_bytes;
}

/* Counts the requests of one block that run and lie beyond their target. */
static void count_block(struct session *session, uint64_t number, const struct plan_record *records,
                        uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const struct plan_record *record = &records[i];
    uint64_t place = number * PLAN_STRIDE + i;
    bool runs = place >= session->window.first && place < session->window.end;
    uint64_t end = record->sector + record->length_sectors;
    session->beyond[record->target] +=
        runs && record->operation != PLAN_FLUSH &&
        end > usable_bytes(&session->targets[record->target]) / PLAN_SECTOR_BYTES;
  }
}

/* Counts the requests that lie beyond their target; only a plan for a larger one is read again. */
static int count_beyond(struct session *session) {
  bool is_needed = false;
  for (uint32_t i = 0; i < session->target_count; i++)
    is_needed =
        is_needed || session->plan.targets[i].needed_bytes > usable_bytes(&session->targets[i]);
  if (!is_needed)
    return 0;
  struct plan_record *records = malloc(PLAN_STRIDE * sizeof *records);
  if (records == NULL) {
    diag("no memory to count the requests beyond the targets");
    return -ENOMEM;
  }
  uint64_t last_ns = 0;
  int rc = 0;
  uint64_t block = session->window.first / PLAN_STRIDE;
  for (; block * PLAN_STRIDE < session->window.end && rc == 0; block++) {
    uint32_t count = 0;
    rc = plan_read_block(&session->plan, block, records, &count, &last_ns);
    if (rc == 0)
      count_block(session, block, records, count);
  }
  free(records);
  return rc;
}

int range_check(struct session *session) {
  int rc = count_beyond(session);
  if (rc != 0 || session->options->out_of_range != PLACE_REFUSE)
    return rc;
  for (uint32_t i = 0; i < session->target_count; i++) {
    const struct target *target = &session->targets[i];
    if (session->beyond[i] == 0)
      continue;
    diag("target %s=%s is too small: %" PRIu64 " requests lie beyond its %" PRIu64
         " bytes, the plan needs %" PRIu64
         "; choose a larger one or --out-of-range wrap, fold, scale, clip or skip",
         target->label, target->path, session->beyond[i], usable_bytes(target),
         session->plan.targets[i].needed_bytes);
    return -ERANGE;
  }
  return 0;
}

struct place_target range_place(const struct session *session, uint32_t index) {
  const struct target *target = &session->targets[index];
  uint64_t bits = session->plan.targets[index].address_bits | GRAIN_SECTORS;
  uint64_t needed = session->plan.targets[index].needed_bytes / PLAN_SECTOR_BYTES;
  return (struct place_target){.size_sectors = usable_bytes(target) / PLAN_SECTOR_BYTES,
                               .needed_sectors = needed,
                               .grain_sectors = (uint32_t)(bits & (~bits + 1)),
                               .expand_sectors =
                                   target->expands ? target->align_bytes / PLAN_SECTOR_BYTES : 1};
}

uint64_t range_longest_transfer(const struct session *session) {
  uint64_t more = 0;
  for (uint32_t i = 0; i < session->target_count; i++)
    if (session->targets[i].expands && 2 * session->targets[i].align_bytes > more)
      more = 2 * session->targets[i].align_bytes;
  return session->plan.max_transfer_bytes + more;
}
