/* What every end of a request does: to its row, and to the counts as the kernel makes them for a
 * disk, one a request, whatever its parts. */
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

void end_request_of_row(struct pairing *pairing, uint64_t request_id, uint32_t index) {
  struct open_request *request = requests_at(&pairing->requests, index);
  struct row *row = rows_at(&pairing->rows, request_id);
  if (request->previous_of_row == NO_REQUEST)
    row->request = request->next_of_row;
  else
    requests_at(&pairing->requests, request->previous_of_row)->next_of_row = request->next_of_row;
  if (request->next_of_row != NO_REQUEST)
    requests_at(&pairing->requests, request->next_of_row)->previous_of_row =
        request->previous_of_row;
  request->row = NO_ROW;
  if (--row->open_requests > 0)
    return;
  row->is_done = true;
  pairing->devices[request->device].open--;
}

/* The kernel stores a negative errno in 16 bits; some tracers stored it without the sign. */
int32_t error_of(const struct record *record) {
  int32_t error = (int16_t)record->error;
  return error > 0 ? -error : error;
}
