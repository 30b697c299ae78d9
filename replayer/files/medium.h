/* The time that slower memory would add to reads and writes that go to it directly. */
#ifndef TRACEKIT_FILES_MEDIUM_H
#define TRACEKIT_FILES_MEDIUM_H

#include <stdint.h>

#include "files/plan.h"

/* Spins until the cache lines that a read or write has moved would have come from or gone to the
 * plan's medium; at once for other records, errors, and plans without one. `result` is what the
 * call returned: bytes, or -errno. Any thread. */
void medium_wait(const struct plan *plan, const struct plan_record *record, int64_t result);

#endif
