/* Records of a source that a thread of its own decodes ahead, in a few blocks. */
#ifndef TRACEKIT_READ_SOURCE_AHEAD_H
#define TRACEKIT_READ_SOURCE_AHEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "read/problem.h"
#include "read/record.h"

struct source;
struct source_ahead;

/* Records sorted by time: those before `ready` may go, the others wait for the next block. */
struct source_block {
  struct record *records;
  size_t capacity, count, ready;
  int status; /* 1: more follow; 0: the end; -EBADMSG: see problem */
  struct problem problem;
};

/* Decodes on into `to`, behind what is left of `from`. (source.c) */
void source_fill(struct source *source, const struct source_block *from, struct source_block *to);

/* Starts a thread that fills blocks behind `first` until one is the last; what it needs of the
 * source is its own until then. Returns NULL when there is no memory or no thread. */
struct source_ahead *source_ahead_start(struct source *source, const struct source_block *first);

/* Gives the block taken before back, and waits for the next one. The last one is given once. */
const struct source_block *source_ahead_take(struct source_ahead *ahead);

/* Ends the thread and frees the blocks; NULL is fine. */
void source_ahead_close(struct source_ahead *ahead);

#endif
