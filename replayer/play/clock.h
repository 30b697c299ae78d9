/* The one clock of a run: CLOCK_MONOTONIC in integer nanoseconds. */
#ifndef TRACEKIT_PLAY_CLOCK_H
#define TRACEKIT_PLAY_CLOCK_H

#include <stdint.h>

struct clock_calibration {
  uint64_t read_ns;      /* median cost of reading the clock */
  uint64_t wake_p50_ns;  /* median lateness of a sleep */
  uint64_t wake_p99_ns;  /* 99th percentile of it */
  uint64_t wake_max_ns;  /* worst of the sleeps tried */
  uint64_t spin_lead_ns; /* how long before a deadline a run stops sleeping and spins */
  uint64_t wake_up_ns;   /* clock_wake_up_ns, for a run that needs it; else 0 */
};

/* Returns the time now, in ns. Any thread. */
uint64_t clock_now_ns(void);

/* Sleeps until the time `deadline_ns` or until a signal comes. Any thread. */
void clock_sleep_until(uint64_t deadline_ns);

/* Returns until when a thread should sleep that waits for `due_ns` and spins for `lead_ns` before
 * it: the further away, the earlier, since long sleeps end later than short ones. In time for
 * `due_ns` it is called again after each sleep, and returns a time in the past when spinning
 * begins. A thread that does not spin (a lead of 0) sleeps once. */
uint64_t clock_wake_ns(uint64_t now_ns, uint64_t due_ns, uint64_t lead_ns);

/* Sets this thread's timer slack to 1 ns. */
void clock_exact_timers(void);

/* Returns the length of this thread's turns on a processor; 0 where the kernel does not report
 * them. */
uint64_t clock_slice_ns(void);

/* Sets the length of this thread's turns (Linux 6.12 and later; 0 changes nothing). Its share of
 * the processor stays the same. New threads inherit it. */
void clock_set_slice(uint64_t slice_ns);

/* Before a sleep from 0.5 ms on this thread's turns become as short as they can be: the scheduler
 * lets it run sooner then when it wakes beside busy threads. One that always spins keeps long
 * turns: it would only be interrupted more often. */
void clock_before_sleep(uint64_t sleep_ns);

/* Sets this thread's timer slack to 1 ns and measures how late its sleeps wake, with the turns
 * of a thread that sleeps; about 60 ms. The lead is twice the 99th percentile, within 50 us and
 * 2 ms. */
void clock_calibrate(struct clock_calibration *out);

/* Returns what a wake-up takes: from an interrupt on a processor that waits until a thread that
 * slept there reads the clock. It is the median lateness of sleeps while no processor may halt,
 * since leaving a halt comes before the interrupt; about 20 ms. 0 where halting cannot be forbidden
 * (/dev/cpu_dma_latency, root). */
uint64_t clock_wake_up_ns(void);

#endif
