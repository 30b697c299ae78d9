#include "play/preflight_process.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>

#include "play/block_targets.h"
#include "play/process_limits.h"
#include "play/stop.h"

#define RING_ENTRY_BYTES UINT64_C(100)        /* submission and two completions */
#define OWN_FILES 32U                         /* descriptors beside those of targets */
#define OWN_THREADS 4U                        /* signals, progress, the plan, the log */
#define OWN_MAPPED_BYTES (UINT64_C(32) << 20) /* plan read ahead, statistics, the log */

static bool has_engine(const struct block_session *session, const char *name) {
  return strcmp(session->options->engine, name) == 0;
}

static uint64_t threads(const struct block_session *session) {
  uint64_t each = has_engine(session, "threads") ? session->options->threads : 0;
  return OWN_THREADS + session->options->submitters - 1 + each;
}

/* What the run has to itself beside what is there already, about. */
static uint64_t data_bytes(const struct block_session *session) {
  uint64_t transfer = block_targets_longest_transfer(session);
  uint64_t bytes = OWN_MAPPED_BYTES + BUFFERS_PERIOD_BYTES + 3 * transfer;
  if (has_engine(session, "threads"))
    bytes += (uint64_t)session->options->threads * (transfer + STOP_STACK_BYTES);
  return bytes;
}

/* The same with what it shares. */
static uint64_t mapped_bytes(const struct block_session *session) {
  uint64_t bytes = data_bytes(session);
  for (uint32_t i = 0; i < session->target_count && has_engine(session, "dax"); i++)
    bytes += session->plan.targets[i].needed_bytes;
  return bytes;
}

static uint64_t left(uint64_t limit, uint64_t used) {
  uint64_t rest = limit > used ? limit - used : 0;
  return limit == UINT64_MAX ? limit : rest;
}

void preflight_process(struct block_session *session) {
  bool is_uring = has_engine(session, "auto") || has_engine(session, "io_uring");
  uint64_t ring = session->options->depth * RING_ENTRY_BYTES + BUFFERS_PERIOD_BYTES +
                  3 * block_targets_longest_transfer(session);
  uint64_t files = (uint64_t)2 * session->plan.target_count + OWN_FILES;
  bool may_lock = !is_uring || process_limits_may(CAP_IPC_LOCK);
  const struct {
    enum preflight_code code;
    struct preflight_note note;
  } found[] = {
      {PREFLIGHT_OPEN_FILES_LIMIT,
       {.needed = files, .available = process_limits_raise_files(files)}},
      {PREFLIGHT_LOCKED_MEMORY_LIMIT,
       {.needed = ring, .available = may_lock ? UINT64_MAX : process_limits_get(RLIMIT_MEMLOCK)}},
      {PREFLIGHT_ADDRESS_SPACE_LIMIT,
       {.needed = mapped_bytes(session),
        .available = left(process_limits_get(RLIMIT_AS), process_limits_mapped_bytes())}},
      {PREFLIGHT_DATA_LIMIT,
       {.needed = data_bytes(session),
        .available = left(process_limits_get(RLIMIT_DATA), process_limits_data_bytes())}},
      {PREFLIGHT_THREADS_LIMIT,
       {.needed = threads(session), .available = process_limits_threads_left()}},
  };
  for (size_t i = 0; i < sizeof found / sizeof *found; i++)
    if (found[i].note.needed > found[i].note.available)
      preflight_note_add(&session->preflight, PREFLIGHT_OF_RUN, found[i].code, &found[i].note);
}
