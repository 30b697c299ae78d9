/* Reads an open file from its place on, by lines or by bytes. */
#ifndef TRACEKIT_STRACE_READER_H
#define TRACEKIT_STRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "strace/cursor.h"

/* All zero but for `fd` is a reader at its file's place. */
struct reader {
  int fd;
  bool is_at_end;
  char *text;
  size_t from, to, capacity; /* of `text`: what was read and not yet given */
  int64_t bytes;             /* given so far */
};

/* Gives the next line without its end; a last line without an end is cut and is given. The view
 * is valid until the next call. Returns 1, 0 at the end, -errno. */
int reader_line(struct reader *reader, struct view *out);

/* Shows the next bytes, at least `size` of them, without giving them. The view is valid until the
 * next call. Returns 1, 0 when fewer are left, -errno. */
int reader_peek(struct reader *reader, size_t size, struct view *out);

/* Gives bytes that were shown. */
void reader_skip(struct reader *reader, size_t size);

/* Frees the memory; the file stays open. */
void reader_clear(struct reader *reader);

#endif
