#include "play/process_limits.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "play/processes.h"

uint64_t process_limits_get(int resource) {
  struct rlimit limit;
  if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return UINT64_MAX;
  return limit.rlim_cur;
}

static uint64_t raise_limit(int resource, uint64_t needed) {
  struct rlimit limit;
  if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return UINT64_MAX; /* nothing to compare with */
  rlim_t before = limit.rlim_cur;
  if (before >= needed || before >= limit.rlim_max)
    return before;
  limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
  return setrlimit((__rlimit_resource_t)resource, &limit) == 0 ? limit.rlim_cur : before;
}

uint64_t process_limits_raise_files(uint64_t needed) { return raise_limit(RLIMIT_NOFILE, needed); }

uint64_t process_limits_raise_stack(uint64_t needed) { return raise_limit(RLIMIT_STACK, needed); }

bool process_limits_may(unsigned capability) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
  return syscall(SYS_capget, &header, data) == 0 && (data[0].effective >> capability & 1) != 0;
}

/* A number of /proc/self/statm, in bytes. */
static uint64_t statm_bytes(unsigned place) {
  uint64_t pages = 0;
  long page_bytes = sysconf(_SC_PAGESIZE);
  FILE *file = fopen("/proc/self/statm", "re");
  if (file == NULL)
    return 0;
  bool is_read = true;
  for (unsigned i = 0; i <= place && is_read; i++)
    is_read = fscanf(file, "%" SCNu64, &pages) == 1;
  (void)fclose(file); /* only read */
  return is_read && page_bytes > 0 ? pages * (uint64_t)page_bytes : 0;
}

uint64_t process_limits_mapped_bytes(void) { return statm_bytes(0); }

uint64_t process_limits_data_bytes(void) { return statm_bytes(5); }

static int take_threads(void *context, char *line) {
  return sscanf(line, "Threads: %" SCNu64, (uint64_t *)context) == 1;
}

static int count_threads(int folder, int pid, void *context) {
  struct stat status;
  uint64_t threads = 0;
  (void)pid;
  /* One that has ended meanwhile has none. */
  if (fstat(folder, &status) == 0 && status.st_uid == getuid() &&
      processes_lines(folder, "status", take_threads, &threads) == 1)
    *(uint64_t *)context += threads;
  return 0;
}

uint64_t process_limits_threads_left(void) {
  uint64_t limit = process_limits_get(RLIMIT_NPROC);
  uint64_t used = 0;
  if (limit == UINT64_MAX || getuid() == 0 || process_limits_may(CAP_SYS_RESOURCE) ||
      process_limits_may(CAP_SYS_ADMIN))
    return UINT64_MAX;
  (void)processes_visit(count_threads, &used); /* none is seen without /proc */
  return limit > used ? limit - used : 0;
}
