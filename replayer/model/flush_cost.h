/* What a flush finds on a device, the one rule of all models and of the emulated engine: a device
 * has something to flush after a write without FUA, until its next flush (a preflush comes before
 * its data). Until the first write it has nothing. */
#ifndef TRACEKIT_MODEL_FLUSH_COST_H
#define TRACEKIT_MODEL_FLUSH_COST_H

#include <stdbool.h>
#include <stdint.h>

/* Indexes of what a flush of a device takes. */
enum { TK_FLUSH_EMPTY, TK_FLUSH_WRITTEN, TK_FLUSHES };

/* Says whether costs can be those of a device: a flush of nothing takes no longer than another. */
static inline bool flush_is_valid(const int64_t ps[TK_FLUSHES]) {
  return ps[TK_FLUSH_EMPTY] >= 0 && ps[TK_FLUSH_EMPTY] <= ps[TK_FLUSH_WRITTEN];
}

/* Says whether it matters what a flush finds. */
static inline bool flush_has_empty(const int64_t ps[TK_FLUSHES]) {
  return ps[TK_FLUSH_EMPTY] < ps[TK_FLUSH_WRITTEN];
}

/* Says whether a request leaves something to flush on the devices that it writes to. */
static inline bool flush_is_due_after(bool is_write, bool is_fua) { return is_write && !is_fua; }

/* Flushes a device: returns TK_FLUSH_WRITTEN if it had something to flush; it has nothing now. */
static inline int flush_device(bool *is_written) {
  const int found = *is_written ? TK_FLUSH_WRITTEN : TK_FLUSH_EMPTY;
  *is_written = false;
  return found;
}

#endif
