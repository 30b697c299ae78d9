#include "play/preflight_process.h"

#include <string.h>

#include "play/block_targets.h"
#include "play/stop.h"

#define RING_ENTRY_BYTES UINT64_C(100)        /* submission and two completions */
#define OWN_FILES 32U                         /* descriptors beside those of targets */
#define OWN_THREADS 4U                        /* signals, progress, the plan, the log */
#define OWN_MAPPED_BYTES (UINT64_C(32) << 20) /* plan read ahead, statistics, the log */
#define OWN_USED_BYTES (UINT64_C(6) << 20)    /* of these */
#define TIMED_USED_BYTES                                                                           \
  (UINT64_C(4) << 20) /* the same of a run with times: calibration, statistics */

static bool has_engine(const struct block_session *session, const char *name) {
  return strcmp(session->options->engine, name) == 0;
}

/* The null engine and an emulated device without a target move nothing, and yet have buffers. */
static struct process_needs needs_of(const struct block_session *session) {
  uint64_t workers = has_engine(session, "threads") ? session->options->threads : 0;
  uint64_t transfer = block_targets_longest_transfer(session);
  bool is_uring = has_engine(session, "auto") || has_engine(session, "io_uring");
  struct process_needs needs = {.files = (uint64_t)2 * session->plan.target_count + OWN_FILES,
                                .threads = OWN_THREADS + session->options->submitters - 1 + workers,
                                .data_bytes = OWN_MAPPED_BYTES + BUFFERS_PERIOD_BYTES +
                                              3 * transfer +
                                              workers * (transfer + STOP_STACK_BYTES)};
  needs.mapped_bytes = needs.data_bytes;
  for (uint32_t i = 0; i < session->target_count && has_engine(session, "dax"); i++)
    needs.mapped_bytes += session->plan.targets[i].needed_bytes;
  needs.used_bytes = OWN_USED_BYTES + BUFFERS_PERIOD_BYTES + 2 * transfer + workers * transfer +
                     needs.threads * PROCESS_NEEDS_THREAD_BYTES;
  if (session->options->pace.kind != PACE_FAST)
    needs.used_bytes += TIMED_USED_BYTES;
  if (is_uring)
    needs.locked_bytes =
        session->options->depth * RING_ENTRY_BYTES + BUFFERS_PERIOD_BYTES + 3 * transfer;
  return needs;
}

void preflight_process(struct block_session *session) {
  struct process_needs needs = needs_of(session);
  process_needs_check(&needs, &session->groups, session->preflight.notes[PREFLIGHT_OF_RUN]);
}
