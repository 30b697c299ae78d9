/* What the summaries of the programs have in common: where they go, and how latencies are told. */
#ifndef TRACEKIT_REPLAY_REPORT_H
#define TRACEKIT_REPLAY_REPORT_H

#include "replay/histogram.h"
#include "replay/json.h"

/* Writes a summary as one JSON value. */
typedef void report_body(struct json *json, const void *context);

/* Writes what `body` writes to the file `path`, which is complete or not there; NULL: to stdout.
 * Where the file cannot be written it goes to stdout as well, so that it is not lost. Returns 0 or
 * -errno after a line on stderr. */
int report_write(const char *path, report_body *body, const void *context);

/* Writes count, percentiles, extremes and mean; null without values. */
void report_histogram(struct json *json, const char *key, const struct histogram *histogram);

/* Returns the largest resident memory of this program so far, 0 when the kernel does not tell. */
uint64_t report_peak_memory_bytes(void);

#endif
