#include "play/thread_pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "play/clock.h"
#include "play/diag.h"
#include "play/stop.h"

#define TICK_NS 5000000U          /* between two looks at signals and threads */
#define START_NS 2000000U         /* until the first operation, so that threads are ready ... */
#define START_A_THREAD_NS 100000U /* ... this much more for each */
#define PROGRESS_NS 500000000U
#define BY_ITSELF_NS 200000000U /* after a forced end: for threads that do not hang */

static struct timeline_row sums(const struct file_run *run, uint64_t now_ns) {
  struct timeline_row row = {.end_ns = now_ns - run->measure_ns};
  for (uint32_t i = 0; i < run->plan->thread_count; i++) {
    const struct worker *worker = &run->workers[i];
    row.operations += atomic_load_explicit(&worker->operations, memory_order_relaxed);
    row.bytes += atomic_load_explicit(&worker->bytes, memory_order_relaxed);
    row.failed += atomic_load_explicit(&worker->failed, memory_order_relaxed);
  }
  return row;
}

static void show(const struct file_run *run, uint64_t now_ns) {
  if (run->settings->progress_fd < 0 || now_ns < run->measure_ns)
    return;
  struct timeline_row row = sums(run, now_ns);
  double seconds = (double)row.end_ns / 1e9;
  (void)dprintf(run->settings->progress_fd,
                "\r%.0f s, %" PRIu64 " operations, %.0f/s, %" PRIu64 " errors\033[K", seconds,
                row.operations, seconds > 0 ? (double)row.operations / seconds : 0.0, row.failed);
}

/* Leaves the threads that hang in operations, once the others have had time to end. */
static uint64_t abandon(struct file_run *run) {
  uint64_t end_ns = clock_now_ns() + BY_ITSELF_NS;
  uint64_t left = 0;
  while (atomic_load(&run->running) > 0 && clock_now_ns() < end_ns)
    clock_sleep_until(clock_now_ns() + TICK_NS);
  for (uint32_t i = 0; i < run->plan->thread_count; i++)
    left += worker_abandon(&run->workers[i]);
  return left;
}

/* When to look again: at the next tick, or at a time when something begins or ends before that; at
 * once where a row is due already. */
static uint64_t next_look(const struct file_run *run, uint64_t now, uint64_t next_row) {
  uint64_t times[] = {run->measure_ns, run->limit_ns};
  uint64_t next = next_row < now + TICK_NS ? next_row : now + TICK_NS;
  for (unsigned i = 0; i < sizeof times / sizeof *times; i++)
    next = times[i] > now && times[i] < next ? times[i] : next;
  return next;
}

/* Takes signals and notes the rates until every thread has ended, or the end is forced. */
static void watch(struct file_run *run, struct timeline *timeline) {
  uint64_t next_row = run->measure_ns + timeline->interval_ns;
  uint64_t next_show = run->start_ns + PROGRESS_NS;
  bool counts = false;
  while (atomic_load(&run->running) > 0 && !stop_is_forced()) {
    uint64_t now = clock_now_ns();
    if (stop_requested())
      worker_end_run(run, RUN_END_SIGNAL);
    if (results_error(run->results) != 0)
      worker_end_run(run, RUN_END_RESULTS);
    if (now >= next_row) {
      struct timeline_row row = sums(run, now);
      timeline_add(timeline, &row);
      next_row += timeline->interval_ns;
    }
    if (now >= next_show) {
      show(run, now);
      next_show += PROGRESS_NS;
    }
    if (!counts && now >= run->measure_ns) {
      perf_gate_switch(&run->settings->gate, true);
      counts = true;
    }
    clock_sleep_until(next_look(run, now, next_row));
  }
  if (counts)
    perf_gate_switch(&run->settings->gate, false);
  /* Two signals in one tick force the end before the first was seen. */
  if (stop_requested())
    worker_end_run(run, RUN_END_SIGNAL);
  uint64_t now = clock_now_ns();
  struct timeline_row last = sums(run, now);
  if (now > run->measure_ns)
    timeline_add(timeline, &last);
  if (run->settings->progress_fd >= 0)
    (void)dprintf(run->settings->progress_fd, "\r\033[K");
}

static void set_times(struct file_run *run) {
  const struct worker_settings *settings = run->settings;
  uint64_t delay = START_NS + (uint64_t)run->plan->thread_count * START_A_THREAD_NS;
  run->start_ns = clock_now_ns() + delay;
  run->measure_ns = run->start_ns + settings->warm_up_ns;
  run->limit_ns = settings->duration_ns == 0 ? UINT64_MAX : run->measure_ns + settings->duration_ns;
}

/* Starts all threads; after a failure those that run are stopped. */
static int start(struct file_run *run, uint32_t *started) {
  for (*started = 0; *started < run->plan->thread_count; ++*started) {
    struct worker *worker = &run->workers[*started];
    (void)atomic_fetch_add(&run->running, 1);
    int rc = stop_thread_create(&worker->thread, worker_run, worker);
    if (rc != 0) {
      (void)atomic_fetch_sub(&run->running, 1);
      worker_end_run(run, RUN_END_SIGNAL);
      return rc;
    }
  }
  return 0;
}

static int open_workers(struct file_run *run) {
  run->workers =
      aligned_alloc(_Alignof(struct worker), run->plan->thread_count * sizeof *run->workers);
  if (run->workers == NULL)
    return -ENOMEM;
  memset(run->workers, 0, run->plan->thread_count * sizeof *run->workers);
  for (uint32_t i = 0; i < run->plan->thread_count; i++) {
    int rc = worker_open(&run->workers[i], run, i);
    if (rc != 0)
      return rc;
  }
  return 0;
}

static void close_workers(struct file_run *run) {
  for (uint32_t i = 0; run->workers != NULL && i < run->plan->thread_count; i++)
    worker_close(&run->workers[i]);
  bool is_whole = true;
  for (uint32_t i = 0; run->workers != NULL && i < run->plan->thread_count; i++)
    is_whole = is_whole && run->workers[i].place != WORKER_ABANDONED;
  if (is_whole)
    free(run->workers);
  run->workers = NULL;
}

static void sum_up(struct file_run *run, struct thread_pool_report *report) {
  uint64_t last_ns = run->measure_ns;
  uint32_t own = file_plan_own_threads(run->plan);
  bool is_whole = true;
  report->cycles = UINT64_MAX;
  for (uint32_t i = 0; i < run->plan->thread_count; i++) {
    const struct worker *worker = &run->workers[i];
    file_stats_merge(report->stats, worker->stats);
    last_ns = worker->last_end_ns > last_ns ? worker->last_end_ns : last_ns;
    if (i < own && run->plan->threads[i].count > 0 && worker->cycle < report->cycles)
      report->cycles = worker->cycle;
    is_whole = is_whole && worker->is_done;
  }
  report->cycles = report->cycles == UINT64_MAX ? 0 : report->cycles;
  if (run->end == RUN_END_TIME && last_ns < run->limit_ns)
    last_ns = run->limit_ns; /* it was waited for */
  report->elapsed_ns = last_ns - run->measure_ns;
  /* A signal that came with the last operation has interrupted nothing. */
  bool is_at_end = run->end == RUN_END_NONE || (run->end == RUN_END_SIGNAL && is_whole);
  report->end = is_at_end ? RUN_END_PLAN : (enum run_end)run->end;
}

int thread_pool_run(struct file_run *run, struct timeline *timeline,
                    struct thread_pool_report *report) {
  /* Threads that did start are joined after a failure, too: they use what the caller frees. */
  memset(report, 0, sizeof *report);
  report->stats = file_stats_new(run->plan, NULL);
  int rc = report->stats == NULL ? -ENOMEM : open_workers(run);
  uint32_t started = 0;
  if (rc == 0) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct clock_calibration calibration;
    clock_calibrate(&calibration);
    /* Threads that spin would take the processor from those that work. */
    bool is_crowded = processors < 0 || run->plan->thread_count > (unsigned long)processors;
    run->spin_ns = is_crowded ? 0 : calibration.spin_lead_ns;
    set_times(run);
    rc = start(run, &started);
    watch(run, timeline);
    if (stop_is_forced())
      report->unknown = abandon(run);
  }
  /* Fails only for a thread that is not ours. */
  for (uint32_t i = 0; i < started; i++)
    if (run->workers[i].place != WORKER_ABANDONED)
      (void)pthread_join(run->workers[i].thread, NULL);
  if (rc == 0)
    sum_up(run, report);
  else
    diag("cannot start the threads: %s", strerror(-rc));
  close_workers(run);
  return rc;
}
