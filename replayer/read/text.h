/* Captures as text: one event a line, as blkparse, perf, ftrace and the blk tracer print them, read
 * into the records of the binary captures, so that the same pairing makes their requests.
 *
 * What is missing in a line stays zero (docs/event-texts.md). Lines that the format knows and that
 * are no events are passed over; wrong lines are counted, and the first of them kept. */
#ifndef TRACEKIT_READ_TEXT_H
#define TRACEKIT_READ_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/record.h"
#include "read/text_layer.h"

#define TEXT_EXAMPLES 5
#define TEXT_SHOWN_BYTES 120
#define FORM_ITEMS 64

enum text_format {
  TEXT_NONE,
  TEXT_BLKPARSE, /* blkparse's default format */
  TEXT_FORM,     /* blkparse -f */
  TEXT_TRACER,   /* the blk tracer's own columns (option blk_classic) */
  TEXT_KERNEL,   /* block:* events of perf script and ftrace, and the blk tracer's usual text */
  TEXT_NVME,     /* the same lines, of which the events of a driver are read */
  TEXT_UFS,
  TEXT_SCSI,
};

enum text_status { TEXT_EVENT, TEXT_PASSED, TEXT_BAD };

struct text_example {
  int64_t line; /* from 1 */
  char text[TEXT_SHOWN_BYTES + 1];
};

/* A part of a format that the user gave to `blkparse -f`: a field, or what stands between two. */
struct form_item {
  char letter;   /* of the field; 0 for text between fields */
  bool is_blank; /* that text is any number of blanks */
  char literal;  /* else this one character */
};

/* All zero matches nothing. */
struct text_form {
  struct form_item items[FORM_ITEMS];
  uint32_t count;
};

struct drivers;

/* Of one input; all zero is valid. */
struct text {
  enum text_format format;
  struct text_form form; /* of TEXT_FORM */
  int64_t lines;         /* read */
  int64_t passed;        /* of them no events, and not wrong */
  int64_t bad;           /* of them wrong */
  int64_t lost;          /* events that the text itself says were lost */
  int64_t skips;         /* records that blkparse says it missed, see has_skips */
  int64_t cpus;          /* how many there are, by a header; 0 where it does not say */
  struct text_example examples[TEXT_EXAMPLES];
  bool is_started; /* an event was read: what stands before is a preamble */
  bool in_summary; /* of blkparse, behind its events */
  bool has_skips;
  bool is_too_long;          /* within a line that is longer than the buffer */
  bool is_perf;              /* of TEXT_KERNEL: events are called block:name */
  bool has_nanoseconds;      /* a time is no whole microsecond */
  bool has_tracer;           /* of TEXT_KERNEL: lines of the blk tracer */
  bool has_no_memory;        /* the last line could not be read for want of it */
  struct drivers *drivers;   /* NULL before the first event of one */
  uint32_t block_bytes;      /* of a logical block; 0: 512 */
  int64_t others[LAYER_END]; /* events of layers that are not read */
  int64_t commands;          /* requests issued, */
  int64_t fine_commands;     /* and those of them that are no whole 8 blocks */
  int64_t unplaced;          /* commands whose place the text does not say */
  int64_t orphans;           /* completions of commands that were not seen before */
};

void text_close(struct text *text);
/* Reads the line [line, end) into `out` but for its `offset`; *end is a '\n'. Counts it. */
enum text_status text_line(struct text *text, const char *line, const char *end,
                           struct record *out);

/* Counts a line that is longer than any line of these formats. */
void text_too_long(struct text *text, const char *line, size_t bytes);

/* Finds the format that nearly all lines of the first `size` bytes are of, but for what stands
 * before its first event. TEXT_NONE when there is none. */
enum text_format text_detect(const char *head, size_t size);

/* Reads the format `pattern`, with or without its "\n" at the end. Returns 0, -EINVAL for a field
 * that blkparse does not know or a pattern that is too long, -ENODATA without a time, an
 * action, RWBS, a place or a length. */
int text_form_open(struct text_form *form, const char *pattern);

/* Reads the line [line, end) into `out`. Returns false when it is not of the format. */
bool text_form_line(const struct text_form *form, const char *line, const char *end,
                    struct record *out);

/* The formats' own readers of a line, which they count nothing of: (text_body.c)
 *
 *   maj,min cpu sequence seconds.nanoseconds pid action rwbs ...     blkparse
 *   maj,min cpu          seconds.nanoseconds pid action rwbs ...     the blk tracer
 *
 * and those of perf and ftrace. (text_kernel.c) */
enum text_status text_blkparse(struct text *text, const char *line, const char *end,
                               struct record *out);
enum text_status text_tracer(struct text *text, const char *line, const char *end,
                             struct record *out);
enum text_status text_kernel(struct text *text, const char *line, const char *end,
                             struct record *out);

/* Reads action, RWBS and the rest as blkparse and the blk tracer print them. (text_body.c) */
enum text_status text_columns(const char *at, const char *end, struct record *out);

#endif
