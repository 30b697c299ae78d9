/* Traces of the Open CAS telemetry framework: the files of one trace in, columns of requests out,
 * in order of time, each joined with its completion.
 *
 * A reader is used by one thread at a time. Memory does not grow with the length. */
#ifndef TRACEKIT_READ_OCTF_H
#define TRACEKIT_READ_OCTF_H

#include <stdint.h>

#include "common/export.h"
#include "read/octf_source.h"

#define TK_OCTF_NAME_BYTES 256
#define TK_OCTF_MOST_DEVICES 65536

enum tk_octf_column {
  TK_OCTF_TIME,      /* ns, as in the trace */
  TK_OCTF_SECTOR,    /* 0 of requests without data */
  TK_OCTF_SECTORS,   /* length */
  TK_OCTF_RESPONSE,  /* ns, -1 when no completion was seen */
  TK_OCTF_DEVICE,    /* index, see tk_octf_device */
  TK_OCTF_OPERATION, /* as in the trace: 0 unknown, 1 read, 2 write, 3 discard; 4 an empty flush */
  TK_OCTF_PREFLUSH,  /* this and the following: 0 or 1 */
  TK_OCTF_FUA,
  TK_OCTF_META,
  TK_OCTF_READAHEAD,
  TK_OCTF_ERROR,
  TK_OCTF_COLUMNS,
};

/* Counts of what was read so far. */
struct tk_octf_stats {
  int64_t bytes, messages;
  int64_t requests, completions;
  int64_t unmatched_completions; /* of no open request, or of a later one */
  int64_t unmatched_requests;    /* without a completion */
  int64_t evicted;               /* of these, given up because the window was full */
  int64_t passed;                /* events of files, which are no requests */
  int64_t unknown;               /* events of a kind that is not known */
  int64_t numbered;              /* messages with a number (sid), */
  int64_t first_sid, last_sid;   /* the lowest and the highest of these */
};

struct tk_octf_device {
  uint64_t id;
  uint64_t sectors;                  /* size, 0 when missing */
  char name[TK_OCTF_NAME_BYTES + 1]; /* empty when missing; any bytes but zero */
};

struct tk_octf;

/* Says whether a file that begins with these bytes is one of such a trace: 0 or 1. */
TK_EXPORT int32_t tk_octf_detect(const uint8_t *head, int64_t size);

/* Makes a reader of `count` descriptors, which stay the caller's; `head` are the first bytes, at
 * most 64 KiB, that were read from the first of them. Returns 0, -EINVAL, -ENOMEM. */
TK_EXPORT int tk_octf_open(const int32_t *fds, int64_t count, const uint8_t *head, int64_t size,
                           struct tk_octf **out);

/* Writes up to `capacity` requests to each of TK_OCTF_COLUMNS arrays. Returns how many, 0 at the
 * end, or -EBADMSG, -ENOMEM: tk_octf_problem says why. */
TK_EXPORT int64_t tk_octf_read(struct tk_octf *reader, int64_t *const *columns, int64_t capacity);

TK_EXPORT void tk_octf_stats(const struct tk_octf *reader, struct tk_octf_stats *out);
TK_EXPORT void tk_octf_problem(const struct tk_octf *reader, struct octf_problem *out);

/* Where input `file` ended within a message; kind OCTF_PROBLEM_NONE when it did not. */
TK_EXPORT void tk_octf_cut(const struct tk_octf *reader, int64_t file, struct octf_problem *out);

/* Returns how many devices there are, and gives number `index` if there is one. */
TK_EXPORT int64_t tk_octf_device(const struct tk_octf *reader, int64_t index,
                                 struct tk_octf_device *out);

/* Frees the reader; NULL is fine. */
TK_EXPORT void tk_octf_close(struct tk_octf *reader);

#endif
