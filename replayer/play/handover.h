/* One record of a run: handed to the engine or left out when it is due, and completed. */
#ifndef TRACEKIT_PLAY_HANDOVER_H
#define TRACEKIT_PLAY_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "play/block_run.h"
#include "play/lead.h"
#include "play/queue_times.h"
#include "play/slots.h"
#include "play/waits.h"

/* The record that is due first. */
struct next {
  const struct block_record *record;
  uint64_t position; /* in the run */
  uint64_t due_ns;   /* from the run's start */
};

struct run {
  struct block_run_config config;
  struct pace pace;
  struct overlap *overlap; /* requests in flight; NULL with several submitters */
  bool is_submitting;      /* the request of the next free slot */
  bool is_held;            /* the next request waits for one that it overlaps, and is counted */
  bool gives_way;          /* a request waits for a completion, and none is due soon */
  uint64_t awaits_ns;  /* clock value: since when the next request waits for another submitter */
  struct waits *waits; /* closed loop: records that wait; else NULL */
  uint64_t taken;      /* records that have gone into it */
  uint64_t start_ns;   /* clock value of the run's time 0 */
  uint32_t in_flight;
  uint32_t hurried; /* of them */
  struct slots slots;
  bool was_full;         /* since the last request in time: the depth was reached */
  bool was_underrun;     /* since then: the feed was behind */
  uint64_t handled;      /* requests submitted or skipped */
  uint64_t unknown;      /* first position whose request was given up in flight, UINT64_MAX: none */
  uint64_t hand_over_ns; /* clock value: when the log is given what there is */
  struct queue_times *queue_times; /* NULL: the lead stays as it is */
  struct lead lead;
  uint64_t handed_ns;   /* clock value: when requests were last submitted */
  uint32_t handed;      /* so many, of which nothing is known yet; 0 where one was late */
  uint64_t most_lag_ns; /* of the requests of this turn */
};

/* Whether a request of this run has a time. */
static inline bool run_is_timed(const struct run *run) {
  return run->config.pace.kind != PACE_FAST;
}

/* Whether all records that the feed has may go at once, whatever the others do. */
bool handover_has_batches(const struct run *run);

/* In such a run: hands over up to `most` records, those before the first that is left out, as far
 * as there is depth, and goes past them. Returns how many; sets *rc to -errno if the engine did not
 * take the next one. */
uint32_t handover_batch(struct run *run, uint32_t most, uint64_t now_ns, int *rc);

/* Hands over or leaves out a record that is due, and goes past it. Returns 0 or -errno. */
int handover_dispatch(struct run *run, const struct next *next, uint64_t elapsed_ns);

/* Whether the record waits for one in flight that it overlaps. Counts it the first time. */
bool handover_is_held(struct run *run, const struct block_record *record);

/* Returns what the record is to the order of several submitters. */
enum lane_order handover_order(const struct run *run, const struct block_record *record);

/* Goes on to what stands behind a record. */
void handover_pass(struct run *run, const struct next *next);

/* Logs and counts a request that has ended. */
void handover_complete(struct run *run, const struct completion *completion);

#endif
