/* Switches the events of a `perf stat --control` on for the measured time alone. */
#ifndef TRACEKIT_PLAY_PERF_GATE_H
#define TRACEKIT_PLAY_PERF_GATE_H

#include <stdbool.h>

struct perf_gate {
  int control_fd; /* perf reads commands from its other end; -1: there is no perf */
  int ack_fd;     /* perf writes ack to its other end when it has done it */
};

/* Lets perf count, or no more, and waits until it has done so, a second at most. Does nothing
 * without perf. */
void perf_gate_switch(const struct perf_gate *gate, bool counts);

#endif
