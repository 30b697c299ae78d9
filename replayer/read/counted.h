/* Completions as the kernel counts them for a disk, to be compared with its counters. */
#ifndef TRACEKIT_READ_COUNTED_H
#define TRACEKIT_READ_COUNTED_H

#include <stdint.h>

/* What the kernel counts of a disk, as Documentation/admin-guide/iostats.rst has it. */
enum counted {
  COUNTED_READ,
  COUNTED_WRITE, /* empty flushes that were queued too */
  COUNTED_DISCARD,
  COUNTED_FLUSH, /* of the device, made by the kernel */
  COUNTED_END,
};

/* When the kernel's counters were read, first and last possible raw time of it. Completions between
 * the two readings are counted; those within one of them may be in the kernel's count or not. */
struct watch {
  uint64_t begin_ns[2], end_ns[2]; /* zero: nothing was read */
};

#endif
