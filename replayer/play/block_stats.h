/* What a run measured, gathered by the submitting thread in constant memory. */
#ifndef TRACEKIT_PLAY_BLOCK_STATS_H
#define TRACEKIT_PLAY_BLOCK_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "play/block_plan.h"
#include "play/completions.h"
#include "play/drift.h"
#include "play/fidelity.h"
#include "play/histogram.h"
#include "play/lead.h"

#define BLOCK_STATS_ERRORS 256U
#define BLOCK_STATS_LATE_NS 100000U /* issued later than this counts as late */

/* Why a request was late. */
enum block_stats_cause { LATE_IN_FLIGHT, LATE_UNDERRUN, LATE_OTHER };
#define BLOCK_STATS_CAUSES 3U

/* Requests of one operation on one target. */
struct block_stats_class {
  uint64_t statuses[COMPLETION_STATUSES]; /* requests by outcome */
  uint64_t bytes;                         /* of those done */
  struct histogram service;               /* submit to completion */
  struct histogram response; /* intended time to completion; empty without intended times */
};

struct block_stats {
  bool is_timed;                     /* intended times were kept */
  uint64_t start_ns;                 /* clock value of the run's time 0 */
  uint64_t lead_ns;                  /* what the kernel takes to queue what is handed to it */
  struct lead_range lead_range;      /* of leads that follow it */
  uint32_t target_count;             /* of the plan */
  uint64_t submitted;                /* requests handed to the engine */
  uint64_t completed;                /* of these, completed */
  uint64_t done_before;              /* by an earlier run of the plan: not submitted */
  uint32_t in_flight_max;            /* requests */
  uint64_t requests;                 /* that there may be */
  uint64_t reached;                  /* records from the run's first one on, all of them handled */
  uint64_t underruns;                /* times the plan was not read far enough ahead */
  uint64_t late[BLOCK_STATS_CAUSES]; /* requests */
  uint64_t overlaps;                 /* requests that met one in flight on the same sectors */
  uint64_t statuses[COMPLETION_STATUSES]; /* requests by outcome */
  uint64_t errors[BLOCK_STATS_ERRORS];    /* failed requests by errno; others in 0 */
  uint64_t first_intended_ns;             /* of the first request submitted */
  uint64_t last_intended_ns;
  uint64_t first_submit_ns;
  uint64_t last_submit_ns;
  uint64_t last_complete_ns;
  struct histogram issue_error;      /* submitted and lead minus intended; empty without these */
  struct drift drift;                /* of the issue error; empty without intended times */
  struct fidelity fidelity;          /* of the gaps; empty without intended times */
  struct block_stats_class *classes; /* target_count * BLOCK_OPERATIONS */
};

/* Makes empty statistics for about `requests` requests. Free with block_stats_free. NULL with errno
 * on failure. */
struct block_stats *block_stats_new(uint32_t target_count, uint64_t requests, bool is_timed);

/* Notes that a request went to the engine at `submit_ns`; `cause` counts if that was late. */
void block_stats_submit(struct block_stats *stats, uint64_t intended_ns, uint64_t submit_ns,
                        enum block_stats_cause cause);

/* Notes what became of a request of `bytes` bytes. */
void block_stats_end(struct block_stats *stats, const struct completions_record *record,
                     uint64_t bytes);

/* Adds what another thread of the run has counted. Gaps are those of each thread's own requests,
 * and `in_flight_max` is the sum of the threads'. */
void block_stats_merge(struct block_stats *stats, const struct block_stats *other);

/* NULL is fine. */
void block_stats_free(struct block_stats *stats);

#endif
