#include "model/log_buckets.h"

#include <errno.h>
#include <stdlib.h>

#include "common/hash.h"

#define FIRST_CAPACITY 4096U

struct slot {
  int64_t number; /* of the bucket */
  struct log_bucket bucket;
};

/* Open addressing; a slot without values is free. */
struct log_buckets {
  struct slot *slots;
  uint64_t capacity; /* slots, a power of two */
  uint64_t used;     /* of them */
  uint32_t octave_bits;
};

int tk_log_buckets_new(uint32_t octave_bits, struct log_buckets **out) {
  struct log_buckets *buckets;

  if (octave_bits > LOG_BUCKETS_MOST_BITS)
    return -EINVAL;
  buckets = malloc(sizeof(*buckets));
  if (!buckets)
    return -ENOMEM;
  *buckets = (struct log_buckets){.capacity = FIRST_CAPACITY, .octave_bits = octave_bits};
  buckets->slots = calloc(FIRST_CAPACITY, sizeof(*buckets->slots));
  if (!buckets->slots) {
    free(buckets);
    return -ENOMEM;
  }
  *out = buckets;
  return 0;
}

void tk_log_buckets_free(struct log_buckets *buckets) {
  if (buckets)
    free(buckets->slots);
  free(buckets);
}

static int64_t number_of(int64_t value, uint32_t octave_bits) {
  unsigned shift;

  if (value < (int64_t)2 << octave_bits)
    return value;
  shift = 63U - octave_bits - (unsigned)__builtin_clzll((uint64_t)value);
  return ((int64_t)shift << octave_bits) + (value >> shift);
}

/* Returns the slot of a bucket, or the free one where it belongs. */
static struct slot *find(const struct log_buckets *buckets, uint32_t group, int64_t number) {
  uint64_t key = (uint64_t)number + ((uint64_t)group << 40);

  for (uint64_t at = hash_mix(key);; at++) {
    struct slot *slot = &buckets->slots[at & (buckets->capacity - 1)];

    if (!slot->bucket.count || (slot->number == number && slot->bucket.group == group))
      return slot;
  }
}

static int grow(struct log_buckets *buckets) {
  struct log_buckets larger = *buckets;

  larger.capacity = buckets->capacity * 2;
  larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
  if (!larger.slots)
    return -ENOMEM;
  for (uint64_t i = 0; i < buckets->capacity; i++) {
    const struct slot *slot = &buckets->slots[i];

    if (slot->bucket.count)
      *find(&larger, slot->bucket.group, slot->number) = *slot;
  }
  free(buckets->slots);
  *buckets = larger;
  return 0;
}

static void count_value(struct log_bucket *bucket, int64_t value) {
  bucket->count++;
  bucket->sum_low += (uint64_t)value;
  bucket->sum_high += (value >> 63) + (bucket->sum_low < (uint64_t)value);
  bucket->min = value < bucket->min ? value : bucket->min;
  bucket->max = value > bucket->max ? value : bucket->max;
}

int tk_log_buckets_add(struct log_buckets *buckets, uint32_t first_group, const uint32_t *groups,
                       const int64_t *values, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    uint32_t group = first_group + groups[i];
    int64_t number;
    struct slot *slot;

    if (values[i] == LOG_BUCKETS_NONE)
      continue;
    number = number_of(values[i], buckets->octave_bits);
    slot = find(buckets, group, number);
    if (!slot->bucket.count) {
      *slot = (struct slot){number, {.group = group, .min = values[i], .max = values[i]}};
      buckets->used++;
    }
    count_value(&slot->bucket, values[i]);
    if (buckets->used > buckets->capacity / 2 && grow(buckets))
      return -ENOMEM;
  }
  return 0;
}

uint64_t tk_log_buckets_count(const struct log_buckets *buckets) { return buckets->used; }

void tk_log_buckets_read(const struct log_buckets *buckets, struct log_bucket *out) {
  for (uint64_t i = 0; i < buckets->capacity; i++)
    if (buckets->slots[i].bucket.count)
      *out++ = buckets->slots[i].bucket;
}
