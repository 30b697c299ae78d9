/* Turns finished rows into an Arrow record batch with the columns of tracekit/schema.py. */
#ifndef TRACEKIT_READ_BATCH_H
#define TRACEKIT_READ_BATCH_H

#include <stdint.h>

#include "common/arrow.h"
#include "read/pair.h"

/* Writes the schema of all batches. Returns 0 or -ENOMEM. */
int batch_schema(struct ArrowSchema *out);

/* Moves the oldest `count` ready rows into a batch; the dictionaries hold all names known by now.
 * Returns 0 or -ENOMEM, and then the rows are still there. */
int batch_take(struct pairing *pairing, int64_t count, struct ArrowArray *out);

#endif
