/* A recording of tracekit-bpf (capture/file_record.h), read as the lines of strace that it stands
 * for. Its records are in the order of their ends: the time of a line is that of its beginning. */
#ifndef TRACEKIT_STRACE_RECORDS_H
#define TRACEKIT_STRACE_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "strace/reader.h"
#include "strace/record_text.h"
#include "strace/thread_parents.h"

/* What the whole recording says; unix times. */
struct records_summary {
  int64_t first_ns, last_ns; /* 0: there is no record */
  int64_t lost, unseen, foreign;
  bool has_end; /* what was lost was counted at the end */
};

/* Embedded by its owner; all zero is valid and empty. */
struct records {
  bool is_there; /* the file is a recording */
  bool is_second_due;
  int64_t clock_to_wall_ns;
  int64_t *oldest_ns;     /* unix time before which no record of a block or of a later one begins */
  uint64_t blocks, count; /* count: records read, of all sorts */
  char *line;             /* of RECORD_TEXT_BYTES */
};

/* Looks at the file's head. Returns 0, -ENOMEM, -errno; it is a recording if `is_there` is set. */
int records_open(struct records *records, struct reader *reader);

/* Reads all from the head's end on, for the parents of threads and the summary. 0 or -errno. */
int records_survey(struct records *records, struct reader *reader, struct thread_parents *parents,
                   struct records_summary *summary);

/* Gives the next line, valid until the next call. Returns 1, 0 at the end, -errno, -EBADMSG for
 * what is no record. */
int records_line(struct records *records, struct reader *reader, struct view *out);

/* Returns the unix time before which no line that is still to come begins. */
int64_t records_oldest(const struct records *records);

void records_clear(struct records *records);

#endif
