#include "model/large_pages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE_BYTES 64u
#define LARGE_BYTES (2u << 20)
#define WORTH_BYTES (2u * LARGE_BYTES) /* below it the tables fit the caches anyway */

static size_t rounded(size_t bytes, size_t unit) { return (bytes / unit + 1) * unit; }

void *large_pages_alloc(size_t bytes) {
  if (bytes < WORTH_BYTES)
    return aligned_alloc(LINE_BYTES, rounded(bytes, LINE_BYTES));
  const size_t length = rounded(bytes, LARGE_BYTES);
  void *memory = aligned_alloc(LARGE_BYTES, length);
  /* A kernel without them refuses, and small pages work as well. */
  if (memory != NULL)
    (void)madvise(memory, length, MADV_HUGEPAGE);
  return memory;
}

void *large_pages_zeroed(size_t bytes) {
  void *memory = large_pages_alloc(bytes);
  return memory != NULL ? memset(memory, 0, bytes) : NULL;
}
