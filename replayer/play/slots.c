#include "play/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int slots_open(struct slots *slots, uint32_t depth) {
  slots->depth = depth;
  slots->all = aligned_alloc(_Alignof(struct slot), depth * sizeof *slots->all);
  slots->free = calloc(depth, sizeof *slots->free);
  if (slots->all == NULL || slots->free == NULL)
    return -ENOMEM;
  memset(slots->all, 0, depth * sizeof *slots->all);
  for (uint32_t i = 0; i < depth; i++) {
    slots->all[i].request.slot = i;
    slots->free[i] = depth - 1 - i;
  }
  return 0;
}

static inline void log_end(const struct slot *slot, enum completions_status status, int32_t error,
                           uint64_t complete_ns, struct completions_lane *log,
                           struct block_stats *stats) {
  struct completions_record *out = completions_next(log);
  *out = (struct completions_record){.request_id = slot->request.request_id,
                                     .intended_ns = slot->intended_ns,
                                     .submit_ns = slot->request.submit_ns - stats->start_ns,
                                     .complete_ns = complete_ns,
                                     .error = error,
                                     .target = slot->request.target,
                                     .status = (uint8_t)status,
                                     .operation = slot->request.operation};
  block_stats_end(stats, out, slot->request.length_bytes);
}

void slots_log(const struct slot *slot, int32_t error, uint64_t complete_ns,
               struct completions_lane *log, struct block_stats *stats) {
  log_end(slot, error == 0 ? COMPLETION_DONE : COMPLETION_FAILED, error, complete_ns, log, stats);
}

void slots_skip(const struct block_record *record, enum completions_status status,
                const uint64_t times_ns[2], struct completions_lane *log,
                struct block_stats *stats) {
  const struct slot slot = {.request = {.request_id = record->request_id,
                                        .target = record->target,
                                        .operation = record->operation,
                                        .submit_ns = stats->start_ns + times_ns[1]},
                            .intended_ns = times_ns[0]};
  log_end(&slot, status, 0, times_ns[1], log, stats);
}

uint64_t slots_give_up(struct slots *slots, uint32_t in_flight, uint64_t now_ns,
                       struct completions_lane *log, struct block_stats *stats) {
  uint64_t first = UINT64_MAX;
  for (uint32_t i = 0; i < slots->depth - in_flight; i++)
    slots->all[slots->free[i]].position = UINT64_MAX;
  for (uint32_t i = 0; i < slots->depth; i++) {
    const struct slot *slot = &slots->all[i];
    if (slot->position == UINT64_MAX)
      continue;
    log_end(slot, COMPLETION_UNKNOWN, -EINPROGRESS, now_ns, log, stats);
    first = slot->position < first ? slot->position : first;
  }
  return first;
}

void slots_close(struct slots *slots) {
  free(slots->all);
  free(slots->free);
}
