/* Memory for tables that are accessed at random: on large pages where the kernel has them, so that
 * an access costs one miss and not a walk of the page table besides. */
#ifndef TRACEKIT_MODEL_LARGE_PAGES_H
#define TRACEKIT_MODEL_LARGE_PAGES_H

#include <stddef.h>

/* Returns `bytes` of memory for free(), aligned to a cache line at least and with any content, or
 * NULL. */
void *large_pages_alloc(size_t bytes);

/* The same, filled with zeros. */
void *large_pages_zeroed(size_t bytes);

#endif
