/* What the summaries of the programs have in common: where they go, how they begin, and how speeds,
 * errors and latencies are told. */
#ifndef TRACEKIT_REPLAY_REPORT_H
#define TRACEKIT_REPLAY_REPORT_H

#include "replay/histogram.h"
#include "replay/json.h"
#include "replay/number.h"

/* Writes the keys of a summary. */
typedef void report_body(struct json *json, const void *session);

/* How a summary begins. */
struct report_head {
  const char *outcome;  /* in one word */
  const char *ended_by; /* in one word; NULL: the summary does not say it */
  int error;            /* why it failed as -errno, or 0 */
};

/* Writes a summary, one JSON object of `head` and what `body` writes, to the file `path`, which is
 * complete or not there; NULL: to stdout. Where the file cannot be written it goes to stdout as
 * well, so that it is not lost. Returns 0 or -errno after a line on stderr. */
int report_write(const char *path, const struct report_head *head, report_body *body,
                 const void *session);

/* Writes the speed of a run as its numerator and denominator. */
void report_speed(struct json *json, const struct fraction *speed);

/* Writes an errno as its number, name and meaning into the open object; 0: that there was none
 * where one was expected. */
void report_error(struct json *json, unsigned number);

/* Writes count, percentiles, extremes and mean; null without values. */
void report_histogram(struct json *json, const char *key, const struct histogram *histogram);

/* Writes the steps that hold values: the largest value of each, and how many are in it. */
void report_steps(struct json *json, const char *key, const struct histogram *histogram);

/* Returns the largest resident memory of this program so far, 0 when the kernel does not tell. */
uint64_t report_peak_memory_bytes(void);

#endif
