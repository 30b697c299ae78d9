/* What the shared library offers to its callers: the functions marked TK_EXPORT, their structures,
 * and the numbers beside them. tracekit's declarations are made from this file when it is built. */
#ifndef TRACEKIT_TRACEKIT_H
#define TRACEKIT_TRACEKIT_H

#include "common/arrow.h"
#include "common/rename.h"
#include "common/version.h"
#include "model/accesses.h"
#include "model/best_placement.h"
#include "model/buffer.h"
#include "model/cache.h"
#include "model/curve.h"
#include "model/event_simulation.h"
#include "model/hotness.h"
#include "model/ledger.h"
#include "model/migration.h"
#include "model/page_runs.h"
#include "model/placement.h"
#include "model/policy.h"
#include "model/response_times.h"
#include "model/shards.h"
#include "model/tiering.h"
#include "model/two_level.h"
#include "play/fit.h"
#include "play/results.h"
#include "read/columns.h"
#include "read/decode.h"
#include "read/octf.h"
#include "read/pair.h"
#include "read/record.h"
#include "read/text.h"
#include "strace/calls.h"
#include "strace/files.h"
#include "workload/tally.h"
#include "workload/working_set.h"
#include "workload/workload.h"

#endif
