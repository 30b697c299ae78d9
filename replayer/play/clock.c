#include "play/clock.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000U
#define SLEEPS 200U
#define SLEEP_NS 250000U
#define SHORT_SLEEP_NS 75000U /* of a wake-up: as a request on a fast device */
#define LEAD_MIN_NS 50000U
#define LEAD_MAX_NS 2000000U
#define SLICE_MIN_NS 100000U /* the shortest that the kernel grants */
#define LONG_SLEEP_NS 500000U
#define SLEEP_PART 8U /* of a wait is left for the sleeps that follow the first */

uint64_t clock_now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
  return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

void clock_sleep_until(uint64_t deadline_ns) {
  struct timespec until = {.tv_sec = (time_t)(deadline_ns / SECOND_NS),
                           .tv_nsec = (long)(deadline_ns % SECOND_NS)};
  /* An interrupted sleep returns early on purpose: the caller looks at the clock anyway. */
  (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

uint64_t clock_wake_ns(uint64_t now_ns, uint64_t due_ns, uint64_t lead_ns) {
  uint64_t left_ns = due_ns > now_ns ? (due_ns - now_ns) / SLEEP_PART : 0;
  uint64_t early_ns = left_ns > lead_ns && lead_ns > 0 ? left_ns : lead_ns;
  return due_ns > early_ns ? due_ns - early_ns : 0;
}

void clock_exact_timers(void) {
  /* The default slack of 50 us would be most of the error. Where the kernel rejects, the
   * measured lateness of sleeps shows it. */
  (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

static bool read_schedule(struct sched_attr *out) {
  *out = (struct sched_attr){.size = sizeof *out};
  return syscall(SYS_sched_getattr, 0, out, sizeof *out, 0U) == 0 &&
         out->sched_policy == SCHED_NORMAL;
}

uint64_t clock_slice_ns(void) {
  struct sched_attr now;
  return read_schedule(&now) ? now.sched_runtime : 0;
}

void clock_set_slice(uint64_t slice_ns) {
  struct sched_attr attributes;
  if (!read_schedule(&attributes) || attributes.sched_runtime == slice_ns || slice_ns == 0)
    return;
  attributes.sched_runtime = slice_ns;
  /* Where the kernel rejects, turns stay as they are, and late sleeps are reported by the run. */
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0U);
}

void clock_before_sleep(uint64_t sleep_ns) {
  if (sleep_ns >= LONG_SLEEP_NS)
    clock_set_slice(SLICE_MIN_NS);
}

static int compare_ns(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left;
  uint64_t b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

/* Sleeps SLEEPS times; the latenesses in ascending order. */
static void measure_sleeps(uint64_t *late_ns, uint64_t sleep_ns) {
  for (unsigned i = 0; i < SLEEPS; i++) {
    uint64_t deadline = clock_now_ns() + sleep_ns;
    clock_sleep_until(deadline);
    uint64_t woken = clock_now_ns();
    late_ns[i] = woken > deadline ? woken - deadline : 0;
  }
  qsort(late_ns, SLEEPS, sizeof *late_ns, compare_ns);
}

static uint64_t median_read_ns(void) {
  uint64_t reads[SLEEPS];
  for (unsigned i = 0; i < SLEEPS; i++) {
    uint64_t before = clock_now_ns();
    reads[i] = clock_now_ns() - before;
  }
  qsort(reads, SLEEPS, sizeof *reads, compare_ns);
  return reads[SLEEPS / 2];
}

void clock_calibrate(struct clock_calibration *out) {
  uint64_t wakes[SLEEPS];
  clock_exact_timers();
  uint64_t slice_ns = clock_slice_ns();
  clock_set_slice(SLICE_MIN_NS);
  measure_sleeps(wakes, SLEEP_NS);
  clock_set_slice(slice_ns);

  out->read_ns = median_read_ns();
  out->wake_p50_ns = wakes[SLEEPS / 2];
  out->wake_p99_ns = wakes[SLEEPS * 99 / 100];
  out->wake_max_ns = wakes[SLEEPS - 1];
  out->wake_up_ns = 0;
  uint64_t lead = 2 * out->wake_p99_ns;
  out->spin_lead_ns = lead < LEAD_MIN_NS ? LEAD_MIN_NS : lead > LEAD_MAX_NS ? LEAD_MAX_NS : lead;
}

uint64_t clock_wake_up_ns(void) {
  const int32_t no_halt_us = 0;
  uint64_t wakes[SLEEPS];
  int fd = open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  bool is_set = write(fd, &no_halt_us, sizeof no_halt_us) == (ssize_t)sizeof no_halt_us;
  if (is_set)
    measure_sleeps(wakes, SHORT_SLEEP_NS);
  (void)close(fd); /* which takes the wish back */
  return is_set ? wakes[SLEEPS / 2] : 0;
}
