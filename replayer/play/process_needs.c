#include "play/process_needs.h"

#include <linux/capability.h>
#include <sys/resource.h>

#include "play/process_limits.h"

static uint64_t left(uint64_t limit, uint64_t used) {
  uint64_t rest = limit > used ? limit - used : 0;
  return limit == UINT64_MAX ? limit : rest;
}

/* A limit of the process, of which `used` is taken. */
static struct preflight_note of_process(uint64_t needed, int resource, const char *where,
                                        uint64_t used) {
  uint64_t limit = process_limits_get(resource);
  return (struct preflight_note){
      .needed = needed, .available = left(limit, used), .limit = limit, .where = where};
}

static struct preflight_note of_group(uint64_t needed, enum group_limit_kind kind,
                                      struct process_groups *groups) {
  struct group_limit *found = &groups->limits[kind];
  group_limits_find(kind, found);
  return (struct preflight_note){
      .needed = needed, .available = found->left, .limit = found->limit, .where = found->path};
}

void process_needs_check(const struct process_needs *needs, struct process_groups *groups,
                         struct preflight_note *notes) {
  uint64_t files = process_limits_raise_files(needs->files);
  uint64_t mapped = process_limits_mapped_bytes();
  uint64_t data = process_limits_data_bytes();
  struct preflight_note threads = of_process(needs->threads, RLIMIT_NPROC, "RLIMIT_NPROC", 0);
  struct preflight_note locked =
      of_process(needs->locked_bytes, RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", 0);
  threads.available = process_limits_threads_left();
  if (process_limits_may(CAP_IPC_LOCK))
    locked.available = UINT64_MAX;
  const struct {
    enum preflight_code code;
    struct preflight_note note;
  } found[] = {
      {PREFLIGHT_OPEN_FILES_LIMIT,
       {.needed = needs->files, .available = files, .limit = files, .where = "RLIMIT_NOFILE"}},
      {PREFLIGHT_LOCKED_MEMORY_LIMIT, locked},
      {PREFLIGHT_ADDRESS_SPACE_LIMIT,
       of_process(needs->mapped_bytes, RLIMIT_AS, "RLIMIT_AS", mapped)},
      {PREFLIGHT_DATA_LIMIT, of_process(needs->data_bytes, RLIMIT_DATA, "RLIMIT_DATA", data)},
      {PREFLIGHT_THREADS_LIMIT, threads},
      {PREFLIGHT_GROUP_THREADS_LIMIT, of_group(needs->threads, GROUP_LIMIT_THREADS, groups)},
      {PREFLIGHT_GROUP_MEMORY_LIMIT, of_group(needs->used_bytes, GROUP_LIMIT_MEMORY, groups)},
      {PREFLIGHT_GROUP_MEMORY_HIGH, of_group(needs->used_bytes, GROUP_LIMIT_MEMORY_HIGH, groups)},
  };
  for (size_t i = 0; i < sizeof found / sizeof *found; i++)
    if (found[i].note.needed > found[i].note.available)
      preflight_note_add(notes, found[i].code, &found[i].note);
}
