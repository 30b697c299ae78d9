#include "files/crew.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/worker.h"
#include "replay/clock.h"
#include "replay/diag.h"
#include "replay/stop.h"

#define TICK_NS 5000000U          /* between two looks at signals and threads */
#define START_NS 2000000U         /* until the first operation, so that threads are ready ... */
#define START_A_THREAD_NS 100000U /* ... this much more for each */
#define PROGRESS_NS 500000000U

void crew_stop(struct crew *crew, enum crew_end why) {
  int goes_on = CREW_GOES_ON;
  (void)atomic_compare_exchange_strong(&crew->end, &goes_on, (int)why); /* the first reason stays */
}

static struct timeline_row sums(const struct crew *crew, uint64_t now_ns) {
  struct timeline_row row = {.end_ns = now_ns - crew->measure_ns};
  for (uint32_t i = 0; i < crew->plan->thread_count; i++) {
    const struct worker *worker = &crew->workers[i];
    row.operations += atomic_load_explicit(&worker->operations, memory_order_relaxed);
    row.bytes += atomic_load_explicit(&worker->bytes, memory_order_relaxed);
    row.failed += atomic_load_explicit(&worker->failed, memory_order_relaxed);
  }
  return row;
}

static void show(const struct crew *crew, uint64_t now_ns) {
  if (crew->settings->progress_fd < 0 || now_ns < crew->measure_ns)
    return;
  struct timeline_row row = sums(crew, now_ns);
  double seconds = (double)row.end_ns / 1e9;
  (void)dprintf(crew->settings->progress_fd,
                "\r%.0f s, %" PRIu64 " operations, %.0f/s, %" PRIu64 " errors\033[K", seconds,
                row.operations, seconds > 0 ? (double)row.operations / seconds : 0.0, row.failed);
}

/* Takes signals and notes the rates until every thread has ended. */
static void watch(struct crew *crew, struct timeline *timeline) {
  uint64_t next_row = crew->measure_ns + timeline->interval_ns;
  uint64_t next_show = crew->start_ns + PROGRESS_NS;
  while (atomic_load(&crew->running) > 0) {
    uint64_t now = clock_now_ns();
    if (stop_requested())
      crew_stop(crew, CREW_SIGNAL);
    if (results_error(crew->results) != 0)
      crew_stop(crew, CREW_RESULTS);
    if (now >= next_row) {
      struct timeline_row row = sums(crew, now);
      timeline_add(timeline, &row);
      next_row += timeline->interval_ns;
    }
    if (now >= next_show) {
      show(crew, now);
      next_show += PROGRESS_NS;
    }
    uint64_t tick = now + TICK_NS;
    clock_sleep_until(next_row < tick ? next_row : tick);
  }
  uint64_t now = clock_now_ns();
  struct timeline_row last = sums(crew, now);
  if (now > crew->measure_ns)
    timeline_add(timeline, &last);
  if (crew->settings->progress_fd >= 0)
    (void)dprintf(crew->settings->progress_fd, "\r\033[K");
}

static void set_times(struct crew *crew) {
  const struct crew_settings *settings = crew->settings;
  uint64_t delay = START_NS + (uint64_t)crew->plan->thread_count * START_A_THREAD_NS;
  crew->start_ns = clock_now_ns() + delay;
  crew->measure_ns = crew->start_ns + settings->warm_up_ns;
  crew->limit_ns =
      settings->duration_ns == 0 ? UINT64_MAX : crew->measure_ns + settings->duration_ns;
}

/* Starts all threads; after a failure those that run are stopped. */
static int start(struct crew *crew, uint32_t *started) {
  for (*started = 0; *started < crew->plan->thread_count; ++*started) {
    struct worker *worker = &crew->workers[*started];
    (void)atomic_fetch_add(&crew->running, 1);
    int rc = stop_thread_create(&worker->thread, worker_run, worker);
    if (rc != 0) {
      (void)atomic_fetch_sub(&crew->running, 1);
      crew_stop(crew, CREW_SIGNAL);
      return rc;
    }
  }
  return 0;
}

static int open_workers(struct crew *crew) {
  crew->workers =
      aligned_alloc(_Alignof(struct worker), crew->plan->thread_count * sizeof *crew->workers);
  if (crew->workers == NULL)
    return -ENOMEM;
  memset(crew->workers, 0, crew->plan->thread_count * sizeof *crew->workers);
  for (uint32_t i = 0; i < crew->plan->thread_count; i++) {
    int rc = worker_open(&crew->workers[i], crew, i);
    if (rc != 0)
      return rc;
  }
  return 0;
}

static void close_workers(struct crew *crew) {
  for (uint32_t i = 0; crew->workers != NULL && i < crew->plan->thread_count; i++)
    worker_close(&crew->workers[i]);
  free(crew->workers);
  crew->workers = NULL;
}

static void sum_up(struct crew *crew, struct crew_report *report) {
  uint64_t last_ns = crew->measure_ns;
  report->cycles = UINT64_MAX;
  for (uint32_t i = 0; i < crew->plan->thread_count; i++) {
    const struct worker *worker = &crew->workers[i];
    tally_merge(report->tally, worker->tally);
    last_ns = worker->last_end_ns > last_ns ? worker->last_end_ns : last_ns;
    if (crew->plan->threads[i].count > 0 && worker->cycle < report->cycles)
      report->cycles = worker->cycle;
  }
  report->cycles = report->cycles == UINT64_MAX ? 0 : report->cycles;
  if (crew->end == CREW_TIME && last_ns < crew->limit_ns)
    last_ns = crew->limit_ns; /* it was waited for */
  report->elapsed_ns = last_ns - crew->measure_ns;
  report->end = crew->end == CREW_GOES_ON ? CREW_PLAN : (enum crew_end)crew->end;
}

int crew_run(struct crew *crew, struct timeline *timeline, struct crew_report *report) {
  memset(report, 0, sizeof *report);
  report->tally = tally_new(crew->plan, NULL);
  int rc = report->tally == NULL ? -ENOMEM : open_workers(crew);
  uint32_t started = 0;
  if (rc == 0) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct clock_calibration calibration;
    clock_calibrate(&calibration);
    /* Threads that spin would take the processor from those that work. */
    bool is_crowded = processors < 0 || crew->plan->thread_count > (unsigned long)processors;
    crew->spin_ns = is_crowded ? 0 : calibration.spin_lead_ns;
    set_times(crew);
    rc = start(crew, &started);
    watch(crew, timeline);
  }
  for (uint32_t i = 0; i < started; i++)
    (void)pthread_join(crew->workers[i].thread,
                       NULL); /* fails only for a thread that is not ours */
  if (rc == 0)
    sum_up(crew, report);
  else
    diag("cannot start the threads: %s", strerror(-rc));
  close_workers(crew);
  return rc;
}
