/* Copies to persistent memory that are durable when they return. */
#ifndef TRACEKIT_PLAY_PERSIST_H
#define TRACEKIT_PLAY_PERSIST_H

#include <stddef.h>

/* Copies so that the data has left the caches when it returns: what lies in persistent memory then
 * outlives a loss of power. `to` and `length` are multiples of 64. Any thread. */
typedef void (*persist_copy)(void *to, const void *from, size_t length);

struct persist {
  persist_copy copy;
  const char *name; /* how: "libpmem", "non-temporal stores" or "write-back" */
  void *library;    /* NULL, or what persist_close closes */
};

/* Chooses how to copy: libpmem where it is installed, else this processor's own stores. Returns 0,
 * or -ENOTSUP on a processor of which we know none. */
int persist_open(struct persist *persist);

void persist_close(struct persist *persist);

#endif
