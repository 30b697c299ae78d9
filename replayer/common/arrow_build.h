/* Builds Arrow schemas and arrays whose memory is freed by their own release callbacks. */
#ifndef TRACEKIT_COMMON_ARROW_BUILD_H
#define TRACEKIT_COMMON_ARROW_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "common/arrow.h"

/* One column; the strings must outlive every schema made from it. */
struct arrow_field {
  const char *name;
  const char *format;     /* of the values, or of the indices when there is a dictionary */
  const char *dictionary; /* format of the dictionary's values, NULL for none */
  int64_t flags;          /* ARROW_FLAG_NULLABLE or 0 */
};

/* Makes the schema of a record batch. Returns 0 or -ENOMEM (nothing is left then). */
int arrow_schema_new(struct ArrowSchema *out, const struct arrow_field *fields, int64_t count);

/* Makes an array of `length` values and `buffers` (1 to 3) buffers, all NULL, without children.
 * Returns 0 or -ENOMEM. */
int arrow_array_new(struct ArrowArray *out, int64_t length, int64_t buffers);

/* Gives the array one buffer of `size` bytes, uninitialised. Returns it, or NULL. */
void *arrow_array_buffer(struct ArrowArray *array, int64_t index, size_t size);

/* Gives the array `count` children, zeroed, each to be filled by the caller; those with a release
 * callback are released with it. Returns 0 or -ENOMEM. */
int arrow_array_children(struct ArrowArray *array, int64_t count);

/* Gives the array an empty dictionary to be filled by the caller. Returns it, or NULL. */
struct ArrowArray *arrow_array_dictionary(struct ArrowArray *array);

#endif
