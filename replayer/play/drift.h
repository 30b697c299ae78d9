/* Whether a run gets later and later: the growth of the issue error from its beginning to its end.
 */
#ifndef TRACEKIT_PLAY_DRIFT_H
#define TRACEKIT_PLAY_DRIFT_H

#include <stdint.h>

#include "play/histogram.h"

#define DRIFT_PARTS 64U
#define DRIFT_PARTS_MAX 80U /* with those that several threads have begun at the end */

/* The requests of a part: about when they were due, and how late the middle one of them was. */
struct drift_part {
  double at_ns;
  double error_ns;
};

struct drift {
  uint64_t part_requests; /* in each part but the last */
  uint64_t first_ns;      /* of the part that is being filled: intended times */
  uint64_t last_ns;
  struct histogram errors; /* of that part */
  uint32_t count;          /* parts that are full */
  struct drift_part parts[DRIFT_PARTS_MAX];
};

/* Prepares zeroes for up to `requests` requests of all threads. */
void drift_open(struct drift *drift, uint64_t requests);

/* Notes that a request was issued `error_ns` after its intended time. */
void drift_add(struct drift *drift, uint64_t intended_ns, uint64_t error_ns);

/* Ends the part that is being filled. */
void drift_close_part(struct drift *drift);

/* Adds the parts of `other`, another thread's; the last ones of both are closed. */
void drift_merge(struct drift *drift, const struct drift *other);

/* Returns the growth over `length_ns`: the median of the slopes between any two parts, by Theil and
 * Sen. Late requests in less than a quarter of the parts do not matter. The last part is closed. 0
 * for fewer than two parts. */
double drift_over(const struct drift *drift, uint64_t length_ns);

#endif
