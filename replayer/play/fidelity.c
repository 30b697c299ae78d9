#include "play/fidelity.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

void fidelity_add(struct fidelity *fidelity, uint64_t intended_ns, uint64_t submit_ns) {
  if (fidelity->count++ > 0) {
    uint64_t last_ns = fidelity->last_intended_ns;
    histogram_add(&fidelity->intended, intended_ns > last_ns ? intended_ns - last_ns : 0);
    histogram_add(&fidelity->actual, submit_ns - fidelity->last_submit_ns);
  }
  if (intended_ns > fidelity->last_intended_ns)
    fidelity->last_intended_ns = intended_ns;
  fidelity->last_submit_ns = submit_ns;
}

struct fidelity_distance fidelity_distance(const struct fidelity *fidelity) {
  struct fidelity_distance found = {0};
  double count = (double)fidelity->intended.count;
  int64_t ahead = 0; /* gaps up to this step, intended minus actual */
  for (unsigned step = 0; step < HISTOGRAM_STEPS && count > 0.0; step++) {
    ahead += (int64_t)fidelity->intended.steps[step] - (int64_t)fidelity->actual.steps[step];
    double apart = (double)(ahead < 0 ? -ahead : ahead) / count;
    found.ks_ratio = apart > found.ks_ratio ? apart : found.ks_ratio;
    found.wasserstein_ns += apart * (double)histogram_step_width(step + 1);
  }
  return found;
}

static uint64_t time_ns(const struct timeval *time) {
  return (uint64_t)time->tv_sec * 1000000000U + (uint64_t)time->tv_usec * 1000U;
}

static void read_ticks(struct fidelity_host *host) {
  FILE *file = fopen("/proc/stat", "re");
  uint64_t ticks[8] = {0}; /* user nice system idle iowait irq softirq steal */
  if (file == NULL)
    return;
  int found = fscanf(file,
                     "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                     " %" SCNu64 " %" SCNu64,
                     &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6],
                     &ticks[7]);
  (void)fclose(file); /* only read */
  for (int i = 0; i < found; i++)
    host->all_ticks += ticks[i];
  host->steal_ticks = ticks[7];
}

void fidelity_read_host(struct fidelity_host *host) {
  struct rusage usage;
  *host = (struct fidelity_host){0};
  read_ticks(host);
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    host->user_ns = time_ns(&usage.ru_utime);
    host->system_ns = time_ns(&usage.ru_stime);
  }
  if (getrusage(RUSAGE_THREAD, &usage) == 0)
    host->preemptions = (uint64_t)usage.ru_nivcsw;
}

/* Whether /proc/self/task/`task` is a worker of io_uring. */
static uint32_t is_worker(const char *task) {
  char path[64];
  char name[32] = "";
  int length = snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task);
  FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
  if (file == NULL)
    return 0; /* it has ended */
  bool is_read = fgets(name, sizeof name, file) != NULL;
  (void)fclose(file); /* only read */
  return is_read && strncmp(name, "iou-wrk-", 8) == 0;
}

void fidelity_subtract_host(struct fidelity_host *host, const struct fidelity_host *before) {
  /* Kernels have been seen to count stolen time down. */
  bool is_sane = host->steal_ticks >= before->steal_ticks;
  host->steal_ticks -= is_sane ? before->steal_ticks : host->steal_ticks;
  host->all_ticks -= before->all_ticks;
  host->user_ns -= before->user_ns;
  host->system_ns -= before->system_ns;
  host->preemptions -= before->preemptions;
}

uint32_t fidelity_punt_workers(void) {
  DIR *tasks = opendir("/proc/self/task");
  uint32_t count = 0;
  for (struct dirent *entry = tasks == NULL ? NULL : readdir(tasks); entry != NULL;
       entry = readdir(tasks))
    count += entry->d_name[0] != '.' && is_worker(entry->d_name);
  if (tasks != NULL)
    (void)closedir(tasks); /* only read */
  return count;
}
