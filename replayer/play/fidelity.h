/* How like the plan a run was: its gaps between requests, and what the machine took from it. */
#ifndef TRACEKIT_PLAY_FIDELITY_H
#define TRACEKIT_PLAY_FIDELITY_H

#include <stdint.h>

#include "play/histogram.h"

/* What the kernel counts, of this machine and of this program, since they started. */
struct fidelity_host {
  uint64_t steal_ticks; /* time that the hypervisor gave to others, of all CPUs */
  uint64_t all_ticks;   /* time of all CPUs */
  uint64_t user_ns;     /* CPU time of this program */
  uint64_t system_ns;
  uint64_t preemptions; /* times that the calling thread was put off its CPU */
};

/* Gaps between neighbouring requests, as intended and as submitted. */
struct fidelity {
  uint64_t last_intended_ns;
  uint64_t last_submit_ns;
  uint64_t count; /* requests */
  struct histogram intended;
  struct histogram actual;
};

/* Distances between the two distributions of gaps. */
struct fidelity_distance {
  double ks_ratio;       /* Kolmogorov-Smirnov: largest difference of the distributions, 0 to 1 */
  double wasserstein_ns; /* area between them: how far a gap is off on average */
};

/* Notes a request; in a closed loop one can be intended before its neighbour: the gap is then 0. */
void fidelity_add(struct fidelity *fidelity, uint64_t intended_ns, uint64_t submit_ns);

/* Returns the distances; both are exact to the histograms' 0.8 %, 0 for fewer than two requests. */
struct fidelity_distance fidelity_distance(const struct fidelity *fidelity);

/* Reads the kernel's counters; what it does not report is 0. */
void fidelity_read_host(struct fidelity_host *host);

/* Makes of `host` what was counted since `before`. */
void fidelity_subtract_host(struct fidelity_host *host, const struct fidelity_host *before);

/* Returns how many threads the kernel has made to carry out requests of io_uring that would have
 * blocked (punts), now. */
uint32_t fidelity_punt_workers(void);

#endif
