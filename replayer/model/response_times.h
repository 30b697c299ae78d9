/* How long each request of a trace takes from its arrival until it is done, on a base device for
 * each traced one and on one NVM, first come, first served. Requests arrive at their traced times,
 * or when those that they waited for in the trace are done. */
#ifndef TRACEKIT_MODEL_RESPONSE_TIMES_H
#define TRACEKIT_MODEL_RESPONSE_TIMES_H

#include <stdint.h>

#include "common/export.h"

struct tk_response_setup {
  uint32_t streams;
  uint32_t devices;
  uint32_t servers[2]; /* requests that each base device and the NVM serve at once, 1 to 256 */
  uint32_t is_closed;  /* 0: requests arrive as traced; 1: each stream in a closed loop */
};

/* Requests by traced arrival. In a closed loop the next request of a stream arrives when all before
 * it are done and so long after as in the trace, if they were done before it there; otherwise so
 * long after the one before it as in the trace. */
struct tk_response_jobs {
  const int64_t *arrival_ns; /* as traced, from 0 and ascending */
  const int64_t *done_ns;    /* as traced, not before the arrival */
  const uint32_t *stream;    /* whose: a process, or all */
  const uint32_t *device;
  const int64_t *base_ps; /* what its parts take, which are served at the same time; -1: none */
  const int64_t *nvm_ps;
  int64_t count;
};

/* Writes how long each takes, and when it is done. Returns 0; -EINVAL for a number out of
 * range; -EOVERFLOW when times no longer fit 64 bits; or -ENOMEM. */
TK_EXPORT int tk_response_times(const struct tk_response_setup *setup,
                                const struct tk_response_jobs *jobs, int64_t *response_ps,
                                int64_t *done_ps);

#endif
