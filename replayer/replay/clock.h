/* The one clock of a run: CLOCK_MONOTONIC in integer nanoseconds. */
#ifndef TRACEKIT_REPLAY_CLOCK_H
#define TRACEKIT_REPLAY_CLOCK_H

#include <stdint.h>

struct clock_calibration {
  uint64_t read_ns;      /* median cost of reading the clock */
  uint64_t wake_p50_ns;  /* median lateness of a sleep */
  uint64_t wake_p99_ns;  /* 99th percentile of it */
  uint64_t wake_max_ns;  /* worst of the sleeps tried */
  uint64_t spin_lead_ns; /* how long before a deadline a run stops sleeping and spins */
};

/* Returns the time now, in ns. Any thread. */
uint64_t clock_now_ns(void);

/* Sleeps until the time `deadline_ns` or until a signal comes. Any thread. */
void clock_sleep_until(uint64_t deadline_ns);

/* Sets this thread's timer slack to 1 ns and measures how late its sleeps wake; about 60 ms.
 * The lead is twice the 99th percentile, within 50 us and 2 ms. */
void clock_calibrate(struct clock_calibration *out);

#endif
