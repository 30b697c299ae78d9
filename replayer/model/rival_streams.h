/* Sequential streams among requests: each begins where one of its own ended before. The last 128
 * that were used are known, as bcache does it. */
#ifndef TRACEKIT_MODEL_RIVAL_STREAMS_H
#define TRACEKIT_MODEL_RIVAL_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/issue_queue.h"

struct stream;

/* Makes an empty table; NULL without memory. */
struct stream *rival_streams_new(void);

/* Puts a request where it belongs; returns whether its stream, it included, has come to `cutoff`
 * sectors. A cutoff of 0 is never reached. */
bool rival_streams_add(struct stream *streams, const struct issue_request *request, int64_t cutoff);

/* Frees the table; NULL is fine. */
void rival_streams_free(struct stream *streams);

#endif
