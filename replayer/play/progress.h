/* One line on a terminal that says how far a run is, from a thread of its own. */
#ifndef TRACEKIT_PLAY_PROGRESS_H
#define TRACEKIT_PLAY_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

/* What the submitting thread reports; plain stores, no waiting. */
struct progress_view {
  _Atomic uint64_t handled; /* requests submitted or skipped */
  _Atomic uint64_t failed;  /* requests */
  _Atomic uint64_t lag_ns;  /* issue error of the latest request */
};

struct progress;

/* Starts the display of the sum of `count` views (borrowed), one a submitting thread, for a plan of
 * `total` requests on the terminal `fd`. NULL with errno on failure: a run does as well without. */
struct progress *progress_start(const struct progress_view *views, uint32_t count, uint64_t total,
                                int fd);

/* Ends the display and clears its line; NULL is fine. */
void progress_stop(struct progress *progress);

#endif
