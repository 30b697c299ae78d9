#include "replay/clock.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define SECOND_NS 1000000000U
#define SLEEPS 200U
#define SLEEP_NS 250000U
#define LEAD_MIN_NS 50000U
#define LEAD_MAX_NS 2000000U

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

static int compare_ns(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left;
  uint64_t b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

void clock_calibrate(struct clock_calibration *out) {
  uint64_t reads[SLEEPS];
  uint64_t wakes[SLEEPS];
  /* The default slack of 50 us would be most of the error. Where the kernel refuses, the
   * measurement below shows it. */
  (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);

  for (unsigned i = 0; i < SLEEPS; i++) {
    uint64_t before = clock_now_ns();
    reads[i] = clock_now_ns() - before;
    uint64_t deadline = clock_now_ns() + SLEEP_NS;
    clock_sleep_until(deadline);
    uint64_t woken = clock_now_ns();
    wakes[i] = woken > deadline ? woken - deadline : 0;
  }
  qsort(reads, SLEEPS, sizeof *reads, compare_ns);
  qsort(wakes, SLEEPS, sizeof *wakes, compare_ns);

  out->read_ns = reads[SLEEPS / 2];
  out->wake_p50_ns = wakes[SLEEPS / 2];
  out->wake_p99_ns = wakes[SLEEPS * 99 / 100];
  out->wake_max_ns = wakes[SLEEPS - 1];
  uint64_t lead = 2 * out->wake_p99_ns;
  out->spin_lead_ns = lead < LEAD_MIN_NS ? LEAD_MIN_NS : lead > LEAD_MAX_NS ? LEAD_MAX_NS : lead;
}
