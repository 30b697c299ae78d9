#include "play/preflight_process.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>

#include "play/block_targets.h"
#include "play/process_limits.h"

#define RING_ENTRY_BYTES UINT64_C(100)        /* submission and two completions */
#define OWN_FILES 32U                         /* descriptors beside those of targets */
#define OWN_MAPPED_BYTES (UINT64_C(32) << 20) /* plan read ahead, statistics, the log */

/* What the run maps beside what is mapped already, about. */
static uint64_t mapped_bytes(const struct block_session *session) {
  const struct options *options = session->options;
  uint64_t transfer = block_targets_longest_transfer(session);
  uint64_t bytes = OWN_MAPPED_BYTES + BUFFERS_PERIOD_BYTES + 3 * transfer;
  uint64_t stack = process_limits_get(RLIMIT_STACK);
  if (strcmp(options->engine, "threads") == 0)
    bytes += options->threads * (transfer + (stack == UINT64_MAX ? UINT64_C(2) << 20 : stack));
  for (uint32_t i = 0; i < session->target_count && strcmp(options->engine, "dax") == 0; i++)
    bytes += session->plan.targets[i].needed_bytes;
  return bytes;
}

void preflight_process(struct block_session *session) {
  const char *engine = session->options->engine;
  bool is_uring = strcmp(engine, "auto") == 0 || strcmp(engine, "io_uring") == 0;
  struct preflight_note files = {.needed = (uint64_t)2 * session->plan.target_count + OWN_FILES};
  files.available = process_limits_raise_files(files.needed);
  struct preflight_note locked = {.needed = session->options->depth * RING_ENTRY_BYTES +
                                            BUFFERS_PERIOD_BYTES +
                                            3 * block_targets_longest_transfer(session),
                                  .available = process_limits_get(RLIMIT_MEMLOCK)};
  struct preflight_note mapped = {.needed = mapped_bytes(session),
                                  .available = process_limits_get(RLIMIT_AS)};
  uint64_t used = process_limits_mapped_bytes();
  if (mapped.available != UINT64_MAX)
    mapped.available = mapped.available > used ? mapped.available - used : 0;
  if (files.needed > files.available)
    preflight_note_add(&session->preflight, PREFLIGHT_OF_RUN, PREFLIGHT_OPEN_FILES_LIMIT, &files);
  if (is_uring && locked.needed > locked.available && !process_limits_may(CAP_IPC_LOCK))
    preflight_note_add(&session->preflight, PREFLIGHT_OF_RUN, PREFLIGHT_LOCKED_MEMORY_LIMIT,
                       &locked);
  if (mapped.needed > mapped.available)
    preflight_note_add(&session->preflight, PREFLIGHT_OF_RUN, PREFLIGHT_ADDRESS_SPACE_LIMIT,
                       &mapped);
}
