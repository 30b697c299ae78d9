/* Ways to use an io_uring that the user chooses, as each has its price. */
#ifndef TRACEKIT_PLAY_URING_MODES_H
#define TRACEKIT_PLAY_URING_MODES_H

#include <stdbool.h>
#include <stdint.h>

#define URING_ANY_CPU UINT32_MAX

struct uring_modes {
  bool is_submitted_for; /* SQPOLL: a thread of the kernel takes the entries */
  uint32_t cpu;          /* processor that the thread stays on, or URING_ANY_CPU */
  uint32_t idle_ms;      /* without work for so long it sleeps, and must be woken; 0: 1 s */
  bool is_wide;          /* SQE128 and CQE32: entries with space for a command of a device */
  bool is_polled;        /* IOPOLL: completions are looked for, the device does not interrupt */
};

#endif
