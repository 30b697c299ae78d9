/* Sums over the records of a plan, by target and operation, as its table of targets holds them. */
#ifndef TRACEKIT_WORKLOAD_TALLY_H
#define TRACEKIT_WORKLOAD_TALLY_H

#include <stdint.h>

#include "common/export.h"
#include "workload/workload.h"

#define TALLY_OPERATIONS 11 /* as in a plan: read is the first, zone_finish the last */

/* An entry of the plan's table of targets (replayer/INTERFACE.md). */
struct tally_target {
  char label[32];
  uint64_t needed_bytes;
  uint64_t counts[TALLY_OPERATIONS];
  uint64_t bytes[TALLY_OPERATIONS];
  uint64_t address_bits; /* all sectors and lengths but those of flushes, or-ed */
};

/* Adds the records to their targets and raises `most_sectors` to the longest read or write.
 * Returns 0, or -EINVAL for a target or an operation that there is not; what comes before it is
 * then counted. */
TK_EXPORT int tk_plan_tally(const struct workload_record *records, uint64_t count,
                            struct tally_target *targets, uint32_t target_count,
                            uint64_t *most_sectors);

#endif
