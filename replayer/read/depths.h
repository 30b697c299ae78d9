/* How many requests of its device are under way when a request begins, of a trace whose requests
 * come in order of time and say how long each took.
 *
 * An object is used by one thread at a time. */
#ifndef TRACEKIT_READ_DEPTHS_H
#define TRACEKIT_READ_DEPTHS_H

#include <stdint.h>

#include "common/export.h"

struct tk_depths;

/* Makes a counter; frees it with tk_depths_close. Returns 0 or -ENOMEM. */
TK_EXPORT int tk_depths_open(struct tk_depths **out);

TK_EXPORT void tk_depths_close(struct tk_depths *depths);

/* Goes on with `rows` requests: `device` numbers from 0 (a negative one is -EINVAL), `times_ns` in
 * ascending order, also over calls, `responses_ns` below 0 where one is not known. Writes to
 * `ends_ns` the time of the end, -1 where it is not known, and to `depths` how many requests of the
 * device that came before end later than this one begins, and 1 for itself if it takes any time; at
 * least 1. One whose end is not known counts for itself alone. Returns how many ends are known,
 * -EINVAL or -ENOMEM. */
TK_EXPORT int64_t tk_depths_count(struct tk_depths *depths, const int32_t *device,
                                  const int64_t *times_ns, const int64_t *responses_ns,
                                  int64_t rows, int64_t *ends_ns, int32_t *counts);

/* Writes up to `capacity` ends of what is under way on a device; returns how many there are. */
TK_EXPORT int64_t tk_depths_under_way(const struct tk_depths *depths, int64_t device,
                                      int64_t *ends_ns, int64_t capacity);

#endif
