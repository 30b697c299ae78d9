/* One line of strace's output: `TID SECONDS.NANOSECONDS call(arguments) = result <duration>`. */
#ifndef TRACEKIT_STRACE_LINE_H
#define TRACEKIT_STRACE_LINE_H

#include <stdint.h>

#include "strace/cursor.h"

enum line_kind {
  LINE_BAD,        /* none of these */
  LINE_CALL,       /* a whole call */
  LINE_UNFINISHED, /* the first part of a call */
  LINE_RESUMED,    /* the rest of it */
  LINE_ENDED,      /* the thread has ended */
  LINE_SUPERSEDED, /* another thread of the process goes on under this one's id */
  LINE_OTHER,      /* a signal, a stop */
};

struct line {
  enum line_kind kind;
  uint32_t tid;
  uint32_t other_tid; /* LINE_SUPERSEDED: the thread that goes on */
  int64_t time_ns;    /* unix time */
  struct view name;   /* of the call */
  struct view body;   /* what follows the opening bracket, or `resumed>` */
};

/* A whole call. */
struct call {
  struct cursor arguments;
  bool has_result; /* false: `= ?`, the thread did not come back from it */
  int64_t value;
  struct view path;    /* what strace found behind a descriptor that was returned, escaped */
  int32_t error;       /* errno, 0 for none */
  int64_t duration_ns; /* -1 when missing */
};

/* Splits a line without its end; the views point into it. */
void line_split(struct view text, struct line *out);

/* Reads the arguments and the result of a call from what follows its opening bracket.
 * Returns whether it is one. */
bool call_read(struct view body, struct call *out);

#endif
