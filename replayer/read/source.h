/* One input of the decoder: a file descriptor that delivers records in order of time. */
#ifndef TRACEKIT_READ_SOURCE_H
#define TRACEKIT_READ_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/problem.h"
#include "read/record.h"
#include "read/source_ahead.h"
#include "read/text.h"

/* A record may stand this many records after one that is later in time, and be earlier by this
 * much: live captures of several cpus are a little out of order. Such records are sorted; anything
 * beyond is an error. */
#define SOURCE_REORDER_RECORDS 512
#define SOURCE_REORDER_NS 1000000000u

struct sequence_stream {
  uint32_t device;
  uint32_t cpu;
  uint32_t last;   /* sequence number */
  uint64_t cgroup; /* of the queue events that name none, by the last message; 0: not known */
};

/* Finds records that the tracer lost: each device and cpu numbers its records from 1. */
struct sequence {
  struct sequence_stream *streams;
  size_t count, capacity;
  size_t current;    /* the stream of the last record */
  uint64_t gaps;     /* places where numbers are missing */
  uint64_t lost;     /* numbers missing in all */
  uint64_t repeated; /* records whose number does not go up: read twice, or two captures in one */
  uint64_t numbered; /* records with a number; 0 of them means a source without numbers */
};

/* Its thread, if it has one, uses all but the first fields. */
struct source {
  const struct record *held; /* decoded, sorted by time: [next, ready) are to be taken */
  size_t next, ready;
  bool is_over;               /* no more follow */
  _Atomic bool is_closing;    /* the thread is to end */
  struct source_ahead *ahead; /* the thread of a long text; or NULL */
  struct source_block own;    /* filled without it */
  struct source_block *block; /* that is being filled */

  int fd;                   /* borrowed */
  int32_t index;            /* of the input, for messages */
  bool keeps_whole;         /* end quietly at the first unreadable place */
  bool is_swapped;          /* byte order of the file, known after the first record */
  bool is_started;          /* a record has been decoded */
  bool is_at_end;           /* nothing more to read */
  uint8_t *bytes;           /* read but not yet decoded: [begin, end) */
  size_t begin, end;        /* bytes */
  uint64_t offset;          /* of bytes[begin] in the file */
  uint64_t passed_ns;       /* time of the last record delivered */
  uint64_t latest_ns;       /* greatest time decoded */
  uint64_t latest_ordinal;  /* its position in the file, records */
  uint64_t latest_offset;   /* its position in the file, bytes */
  uint64_t records;         /* decoded */
  uint64_t reordered;       /* of them put at an earlier place */
  uint8_t version;          /* 7 or 8, of its records; 0 before the first */
  struct sequence sequence; /* gaps */
  struct text text;         /* its lines, when it is text */
  struct problem cut;       /* where keeps_whole ended the file; kind NONE when it did not */
};

/* Makes a source that was not read yet one of text in the format, or with TEXT_NONE of binary
 * records, which begins with the `size` bytes of `head` that were read from its descriptor already;
 * more than 64 KiB are -EINVAL. */
int source_set_text(struct source *source, enum text_format format, const char *head, size_t size);

/* Prepares a source of the open `fd`. Returns 0 or -ENOMEM; source_close in both cases. */
int source_open(struct source *source, int fd, int32_t index, bool keeps_whole);

/* Decodes on. Returns 1 when there is a record at held[next], 0 at the end of the input, -EBADMSG
 * with `problem` filled when the input cannot be read on. */
int source_refill(struct source *source, struct problem *problem);

/* Ends the thread and frees the buffers; the descriptor stays open. */
void source_close(struct source *source);

/* Gives the next record without taking it: 1, or what source_refill returns. */
static inline int source_peek(struct source *source, struct problem *problem) {
  return source->next < source->ready ? 1 : source_refill(source, problem);
}

#endif
