/* Interned strings: the dictionary of a dictionary-encoded column, growing while a trace is read.
 */
#ifndef TRACEKIT_COMMON_NAMES_H
#define TRACEKIT_COMMON_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "common/arrow.h"

/* Embedded by its owner; all zero is a valid empty table. */
struct names {
  char *text;        /* all strings one after the other, without terminators */
  int32_t *ends;     /* end of each string in `text`, bytes */
  uint32_t *slots;   /* open addressing; index + 1, 0 is free */
  uint32_t count;    /* strings */
  uint32_t capacity; /* of `ends` */
  uint32_t buckets;  /* of `slots`, a power of two or 0 */
  size_t text_size;  /* bytes allocated for `text` */
};

/* Returns the index of the string of `length` bytes, adding it when it is new; bytes that are not
 * UTF-8 are replaced by '?'. -ENOMEM, -E2BIG (more than 2 GiB of text) on failure. */
int32_t names_add(struct names *names, const char *text, size_t length);

/* Writes a copy of the table as an Arrow array of UTF-8 strings. Returns 0 or -ENOMEM. */
int names_export(const struct names *names, struct ArrowArray *out);

/* Frees everything; the table is empty and usable again. */
void names_clear(struct names *names);

#endif
