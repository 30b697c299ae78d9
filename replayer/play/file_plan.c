#include "play/file_plan.h"

const char *file_operation_name(enum file_operation operation) {
  static const char *const names[FILE_OPERATIONS] = {
      "open",      "create", "close",  "read",   "write", "fsync", "fdatasync", "sync_file_range",
      "stat",      "rename", "link",   "unlink", "mkdir", "rmdir", "readdir",   "truncate",
      "fallocate", "mmap",   "munmap", "msync",  "sync",  "chmod", "chown",     "utimens"};
  return names[operation];
}

uint32_t file_plan_own_threads(const struct file_plan *plan) {
  const struct flow_header *flow = plan->flow.header;
  return plan->thread_count - (flow == NULL ? 0 : flow->writers);
}

uint32_t file_plan_thread_of(const struct file_plan *plan, uint32_t record) {
  uint32_t low = 0;
  uint32_t high = plan->thread_count - 1;
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    if (plan->threads[middle].first <= record)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}
