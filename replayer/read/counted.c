/* Completions as the kernel counts them for a disk: one a request, whatever its parts. */
#include "read/event.h"

#define KIND_WRITE 1
#define KIND_DISCARD 2

static bool is_between(uint64_t time_ns, const uint64_t span_ns[2]) {
  return span_ns[0] <= time_ns && time_ns <= span_ns[1];
}

static enum counted class_of(const struct event *event) {
  if (event->kind & KIND_DISCARD)
    return COUNTED_DISCARD;
  return event->kind & KIND_WRITE ? COUNTED_WRITE : COUNTED_READ;
}

static void count(struct pairing *pairing, const struct event *event, enum counted counted,
                  bool is_certain) {
  const struct watch *watch = &pairing->watch;
  uint64_t time_ns = event->record->time_ns;
  if (time_ns < watch->begin_ns[0] || time_ns > watch->end_ns[1])
    return;
  struct device *device = &pairing->devices[event->device];
  if (!is_certain || is_between(time_ns, watch->begin_ns) || is_between(time_ns, watch->end_ns))
    device->at_edge[counted]++;
  else
    device->completed[counted]++;
}

void count_request(struct pairing *pairing, const struct event *event) {
  count(pairing, event, class_of(event), true);
}

void count_perhaps(struct pairing *pairing, const struct event *event) {
  count(pairing, event, class_of(event), false);
}

void count_device_flush(struct pairing *pairing, const struct event *event) {
  count(pairing, event, COUNTED_FLUSH, true);
}
