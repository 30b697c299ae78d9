/* What the summaries of both kinds of plan have in common: where they go, how they begin, and how
 * paces, errors and latencies are written. */
#ifndef TRACEKIT_PLAY_SUMMARY_H
#define TRACEKIT_PLAY_SUMMARY_H

#include "play/histogram.h"
#include "play/json.h"
#include "play/number.h"
#include "play/pace.h"

/* Writes the keys of a summary. */
typedef void summary_body(struct json *json, const void *session);

/* How a summary begins. */
struct summary_head {
  const char *outcome;  /* in one word */
  const char *ended_by; /* in one word; NULL: the summary does not say it */
  int error;            /* why it failed as -errno, or 0 */
};

/* Writes a summary, one JSON object of `head` and what `body` writes, to the file `path`, which is
 * complete or not there; NULL: to stdout. Where the file cannot be written it goes to stdout as
 * well, so that it is not lost. Returns 0 or -errno after a line on stderr. */
int summary_write(const char *path, const struct summary_head *head, summary_body *body,
                  const void *session);

/* Writes the pace of a run by its name and the speed as its numerator and denominator. */
void summary_pace(struct json *json, enum pace_kind pace, const struct fraction *speed);

/* Writes an errno as its number, name and meaning into the open object; 0: that there was none
 * where one was expected. */
void summary_error(struct json *json, unsigned number);

/* Writes count, percentiles, extremes and mean; null without values. */
void summary_histogram(struct json *json, const char *key, const struct histogram *histogram);

/* Writes the steps that hold values: the largest value of each, and how many are in it. */
void summary_steps(struct json *json, const char *key, const struct histogram *histogram);

/* Returns the largest resident memory of this program so far, 0 when the kernel does not report it.
 */
uint64_t summary_peak_memory_bytes(void);

#endif
