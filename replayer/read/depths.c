#include "read/depths.h"

#include <errno.h>
#include <stdlib.h>

#include "common/heap.h"

#define FIRST_ENDS 64u

static inline bool is_earlier(const int64_t *left, const int64_t *right) { return *left < *right; }

HEAP_DEFINE(ends, int64_t, 2, is_earlier)

/* What is under way on a device: the ends, the earliest first. */
struct under_way {
  int64_t *ends_ns;
  size_t count, space;
};

struct tk_depths {
  struct under_way *devices;
  size_t count;
};

int tk_depths_open(struct tk_depths **out) {
  *out = calloc(1, sizeof(**out));
  return *out ? 0 : -ENOMEM;
}

void tk_depths_close(struct tk_depths *depths) {
  if (!depths)
    return;
  for (size_t i = 0; i < depths->count; i++)
    free(depths->devices[i].ends_ns);
  free(depths->devices);
  free(depths);
}

/* Makes place for the device of this number. */
static int add_devices(struct tk_depths *depths, size_t number) {
  size_t count = number + 1 > 2 * depths->count ? number + 1 : 2 * depths->count;
  struct under_way *devices = realloc(depths->devices, count * sizeof(*devices));
  if (!devices)
    return -ENOMEM;
  for (size_t i = depths->count; i < count; i++)
    devices[i] = (struct under_way){0};
  depths->devices = devices;
  depths->count = count;
  return 0;
}

static int add_end(struct under_way *device, int64_t end_ns) {
  if (device->count == device->space) {
    size_t space = device->space ? 2 * device->space : FIRST_ENDS;
    int64_t *larger = realloc(device->ends_ns, space * sizeof(*larger));
    if (!larger)
      return -ENOMEM;
    device->ends_ns = larger;
    device->space = space;
  }
  ends_push(device->ends_ns, device->count++, end_ns);
  return 0;
}

int64_t tk_depths_count(struct tk_depths *depths, const int32_t *device, const int64_t *times_ns,
                        const int64_t *responses_ns, int64_t rows, int64_t *ends_ns,
                        int32_t *counts) {
  int64_t known = 0;
  for (int64_t i = 0; i < rows; i++) {
    if (device[i] < 0)
      return -EINVAL;
    if ((size_t)device[i] >= depths->count && add_devices(depths, (size_t)device[i]))
      return -ENOMEM;
    struct under_way *own = &depths->devices[device[i]];
    for (; own->count && own->ends_ns[0] <= times_ns[i]; own->count--)
      ends_pop(own->ends_ns, own->count);
    bool is_known = responses_ns[i] >= 0, takes_time = responses_ns[i] > 0;
    size_t others = own->count;
    ends_ns[i] = is_known ? times_ns[i] + responses_ns[i] : -1;
    if (takes_time && add_end(own, ends_ns[i]))
      return -ENOMEM;
    counts[i] = (int32_t)(others + (takes_time || !is_known || others == 0));
    known += is_known;
  }
  return known;
}

int64_t tk_depths_under_way(const struct tk_depths *depths, int64_t device, int64_t *ends_ns,
                            int64_t capacity) {
  if (device < 0 || (size_t)device >= depths->count)
    return 0;
  const struct under_way *own = &depths->devices[device];
  for (size_t i = 0; i < own->count && (int64_t)i < capacity; i++)
    ends_ns[i] = own->ends_ns[i];
  return (int64_t)own->count;
}
