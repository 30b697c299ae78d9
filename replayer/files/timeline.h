/* Operations, bytes and errors over the time of a run, in bounded memory. */
#ifndef TRACEKIT_FILES_TIMELINE_H
#define TRACEKIT_FILES_TIMELINE_H

#include <stdint.h>

#define TIMELINE_ROWS 4096U

/* Sums from the start of the measured time to `end_ns`. */
struct timeline_row {
  uint64_t end_ns; /* from the start of the measured time */
  uint64_t operations;
  uint64_t bytes;
  uint64_t failed;
};

struct timeline {
  uint64_t interval_ns; /* doubled each time the rows are full */
  uint32_t count;
  struct timeline_row rows[TIMELINE_ROWS];
};

/* Adds the sums at one more interval's end. A full timeline first drops every other row. */
void timeline_add(struct timeline *timeline, const struct timeline_row *row);

#endif
