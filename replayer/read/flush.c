/* Empty flushes. They have no place on the device, so they are kept in order for each device. The
 * kernel serves all that wait by one flush of its own (D and C with the flush mark and no bytes)
 * and then completes each (C without the mark). */
#include "read/event.h"

/* Once its device flush is done, a flush completes at once; one that has not by then lost its
 * completion and must not take that of the next. */
#define STALE_NS 10000000u

void flush_queued(struct pairing *pairing, uint32_t index) {
  struct device *device = &pairing->devices[requests_at(&pairing->requests, index)->device];
  if (device->last_flush == NO_REQUEST)
    device->first_flush = index;
  else
    requests_at(&pairing->requests, device->last_flush)->next_child = index;
  device->last_flush = index;
}

/* Takes the oldest flush from the device's list and frees it. */
static void drop_first(struct pairing *pairing, struct device *device) {
  uint32_t index = device->first_flush;
  device->first_flush = requests_at(&pairing->requests, index)->next_child;
  if (device->first_flush == NO_REQUEST)
    device->last_flush = NO_REQUEST;
  requests_free(&pairing->requests, index);
}

/* Drops the flushes at the front whose row has left the window or is given up. */
static void drop_ended(struct pairing *pairing, struct device *device) {
  while (device->first_flush != NO_REQUEST &&
         requests_at(&pairing->requests, device->first_flush)->row == NO_ROW)
    drop_first(pairing, device);
}

void flush_allocated(struct pairing *pairing, const struct event *event) {
  struct device *device = &pairing->devices[event->device];
  drop_ended(pairing, device);

  /* The newest of the process: an older one that is still queued has lost its own event. */
  uint32_t found = NO_REQUEST;
  for (uint32_t i = device->first_flush; i != NO_REQUEST;
       i = requests_at(&pairing->requests, i)->next_child) {
    const struct open_request *request = requests_at(&pairing->requests, i);
    if (request->state == REQUEST_QUEUED && request->pid == event->record->pid &&
        request->row != NO_ROW)
      found = i;
  }
  if (found == NO_REQUEST) {
    pairing->counts.unmatched[UNMATCHED_GETRQ]++;
    return;
  }
  struct open_request *request = requests_at(&pairing->requests, found);
  request->state = REQUEST_ALLOCATED;
  rows_at(&pairing->rows, request->row)->getrq_ns = event->time_ns;
}

void flush_issued(struct pairing *pairing, const struct event *event) {
  /* A flush waits from its G on; a capture without that action leaves its Q. */
  uint8_t waiting =
      pairing->counts.actions[ACTION_GET_REQUEST] ? REQUEST_ALLOCATED : REQUEST_QUEUED;
  pairing->counts.device_flushes++;
  uint32_t index = pairing->devices[event->device].first_flush;
  for (; index != NO_REQUEST; index = requests_at(&pairing->requests, index)->next_child) {
    struct open_request *request = requests_at(&pairing->requests, index);
    if (request->row == NO_ROW || request->state != waiting)
      continue;
    request->state = REQUEST_ISSUED;
    rows_at(&pairing->rows, request->row)->issue_ns = event->time_ns;
  }
}

/* Ends a flush that waits for a device flush no longer: its own completion was lost. */
static void give_up(struct pairing *pairing, struct device *device) {
  struct open_request *request = requests_at(&pairing->requests, device->first_flush);
  pairing->counts.unmatched[UNMATCHED_QUEUE]++;
  end_request_of_row(pairing, request->row, device->first_flush);
  drop_first(pairing, device);
}

static bool is_stale(const struct open_request *request, int64_t now_ns) {
  return request->flushed_ns != NO_TIME &&
         (uint64_t)now_ns - (uint64_t)request->flushed_ns > STALE_NS;
}

void flush_completed(struct pairing *pairing, const struct event *event) {
  struct device *device = &pairing->devices[event->device];
  drop_ended(pairing, device);

  /* A flush that is followed by others and should have ended long ago has lost its completion. */
  while (device->first_flush != device->last_flush &&
         is_stale(requests_at(&pairing->requests, device->first_flush), event->time_ns)) {
    give_up(pairing, device);
    drop_ended(pairing, device);
  }
  if (device->first_flush == NO_REQUEST) {
    /* An empty flush has no place. What has one ended a write, whose data was counted perhaps. */
    (event->record->sector ? count_perhaps : count_request)(pairing, event);
    pairing->counts.unmatched[UNMATCHED_COMPLETE]++;
    return;
  }

  /* Flushes complete in the order in which they were queued. */
  count_request(pairing, event);
  struct open_request *request = requests_at(&pairing->requests, device->first_flush);
  struct row *row = rows_at(&pairing->rows, request->row);
  row->complete_ns = event->time_ns;
  row->error = error_of(event->record);
  end_request_of_row(pairing, request->row, device->first_flush);
  drop_first(pairing, device);
}

void flush_device_done(struct pairing *pairing, const struct event *event) {
  bool is_served = false;
  uint32_t index = pairing->devices[event->device].first_flush;
  for (; index != NO_REQUEST; index = requests_at(&pairing->requests, index)->next_child) {
    struct open_request *request = requests_at(&pairing->requests, index);
    if (request->state == REQUEST_ISSUED && request->flushed_ns == NO_TIME) {
      request->flushed_ns = event->time_ns;
      is_served = true;
    }
  }
  /* Devices without requests (dm, md) complete the flush itself, with its mark. */
  if (!is_served && pairing->counts.device_flushes == 0)
    flush_completed(pairing, event);
  else
    count_device_flush(pairing, event);
}
