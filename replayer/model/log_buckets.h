/* Log-linear histograms of whole numbers, of any number of groups at once, in one table: those of
 * parts of a trace add up.
 *
 * A bucket is that of log_bucket (analyzers/lib). It keeps the exact sum, minimum and maximum of
 * its values; as coarser buckets are unions of finer ones, they can be made of these by the
 * minimum. */
#ifndef TRACEKIT_MODEL_LOG_BUCKETS_H
#define TRACEKIT_MODEL_LOG_BUCKETS_H

#include <stdint.h>

#include "common/export.h"

#define LOG_BUCKETS_NONE INT64_MIN /* no value: it is not counted */
#define LOG_BUCKETS_MOST_BITS 16

struct log_buckets; /* opaque */

/* One bucket that has values. */
struct log_bucket {
  uint64_t sum_low; /* of the values, a number of 128 bits with sign */
  int64_t sum_high;
  uint64_t count; /* values, at least 1 */
  int64_t min;
  int64_t max;
  uint32_t group;
  uint32_t unused; /* 0 */
};

/* Makes an empty handle with 2^octave_bits buckets an octave. Returns 0, -EINVAL above
 * LOG_BUCKETS_MOST_BITS, or -ENOMEM. */
TK_EXPORT int tk_log_buckets_new(uint32_t octave_bits, struct log_buckets **out);

/* Frees a handle; NULL is fine. */
TK_EXPORT void tk_log_buckets_free(struct log_buckets *buckets);

/* Counts `count` values, value i for the group `first_group` + groups[i]. Returns 0 or -ENOMEM:
 * then some of them are counted. */
TK_EXPORT int tk_log_buckets_add(struct log_buckets *buckets, uint32_t first_group,
                                 const uint32_t *groups, const int64_t *values, uint64_t count);

/* Returns how many buckets have values. */
TK_EXPORT uint64_t tk_log_buckets_count(const struct log_buckets *buckets);

/* Writes all buckets that have values, in no order. */
TK_EXPORT void tk_log_buckets_read(const struct log_buckets *buckets, struct log_bucket *out);

#endif
