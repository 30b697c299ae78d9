#include "play/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "play/clock.h"
#include "play/stop.h"

#define TICK_NS 100000000L
#define TICKS_A_LINE 5U

struct progress {
  const struct progress_view *views;
  uint32_t count;
  int fd;            /* the terminal */
  uint64_t total;    /* requests of the plan */
  uint64_t start_ns; /* when the display began */
  pthread_t thread;
  _Atomic bool is_ending;
};

static uint64_t load(const _Atomic uint64_t *number) {
  return atomic_load_explicit(number, memory_order_relaxed);
}

static void show(const struct progress *progress) {
  uint64_t handled = 0;
  uint64_t failed = 0;
  uint64_t lag_ns = 0;
  for (uint32_t i = 0; i < progress->count; i++) {
    const struct progress_view *view = &progress->views[i];
    handled += load(&view->handled);
    failed += load(&view->failed);
    lag_ns = load(&view->lag_ns) > lag_ns ? load(&view->lag_ns) : lag_ns;
  }
  double seconds = (double)(clock_now_ns() - progress->start_ns) / 1e9;
  double rate = seconds > 0.0 ? (double)handled / seconds : 0.0;
  double left = rate > 0.0 ? (double)(progress->total - handled) / rate : 0.0;
  double percent = progress->total > 0 ? 100.0 * (double)handled / (double)progress->total : 100.0;
  (void)dprintf(progress->fd,
                "\r%" PRIu64 " of %" PRIu64 " requests (%.0f %%), %.0f/s, lag %.1f us, "
                "%" PRIu64 " errors, %.0f s left\033[K",
                handled, progress->total, percent, rate, (double)lag_ns / 1e3, failed, left);
}

static void *display(void *argument) {
  struct progress *progress = argument;
  struct timespec tick = {.tv_nsec = TICK_NS};
  for (unsigned ticks = 1; !atomic_load_explicit(&progress->is_ending, memory_order_relaxed);
       ticks++) {
    if (ticks % TICKS_A_LINE == 0)
      show(progress);
    (void)nanosleep(&tick, NULL); /* woken early is as good */
  }
  (void)dprintf(progress->fd, "\r\033[K");
  return NULL;
}

struct progress *progress_start(const struct progress_view *views, uint32_t count, uint64_t total,
                                int fd) {
  struct progress *progress = calloc(1, sizeof *progress);
  if (progress == NULL)
    return NULL;
  progress->views = views;
  progress->count = count;
  progress->fd = fd;
  progress->total = total;
  progress->start_ns = clock_now_ns();
  int rc = stop_thread_create(&progress->thread, display, progress);
  if (rc != 0) {
    free(progress);
    errno = -rc;
    return NULL;
  }
  return progress;
}

void progress_stop(struct progress *progress) {
  if (progress == NULL)
    return;
  atomic_store_explicit(&progress->is_ending, true, memory_order_relaxed);
  (void)pthread_join(progress->thread, NULL); /* fails only for a thread that is not ours */
  free(progress);
}
