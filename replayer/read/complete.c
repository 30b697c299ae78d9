/* Completion, whole and in part, and the end of rows that never complete. */
#include <errno.h>

#include "read/event.h"

/* All sectors of the row's request have been transferred. */
static void finish_part(struct pairing *pairing, const struct event *event, uint32_t index) {
  const struct open_request *request = requests_at(&pairing->requests, index);
  if (request->row == NO_ROW)
    return;
  struct row *row = rows_at(&pairing->rows, request->row);
  row->transfer_ns = row->complete_ns = event->time_ns;
  if (event->record->error)
    row->error = error_of(event->record);
  end_request_of_row(pairing, request->row, index);
}

/* An I/O that failed before it had a request, as one that must not wait does where all requests are
 * taken: the device did not get it, and the kernel does not count it. */
static bool had_no_request(const struct pairing *pairing, const struct event *event,
                           const struct open_request *request) {
  return event->record->error && request->state == REQUEST_QUEUED &&
         pairing->devices[event->device].has_requests;
}

/* The whole request is transferred: ends it and all that was merged into it. */
static void finish(struct pairing *pairing, const struct event *event, uint32_t index) {
  uint32_t child = requests_at(&pairing->requests, index)->first_child;
  for (uint32_t next; child != NO_REQUEST; child = next) {
    next = requests_at(&pairing->requests, child)->next_child;
    finish_part(pairing, event, child);
    requests_free(&pairing->requests, child);
  }
  struct open_request *request = requests_at(&pairing->requests, index);
  request->first_child = request->last_child = NO_REQUEST;
  if (!request->has_closing_flush && !had_no_request(pairing, event, request))
    count_request(pairing, event);
  if (request->has_closing_flush && request->row != NO_ROW) {
    struct row *row = rows_at(&pairing->rows, request->row);
    row->transfer_ns = row->complete_ns = event->time_ns;
    if (event->record->error)
      row->error = error_of(event->record);
    request->state = REQUEST_DRAINING;
    return;
  }
  finish_part(pairing, event, index);
  requests_unlink(&pairing->requests, index);
  requests_free(&pairing->requests, index);
}

/* Ends those merged I/Os that lie wholly before `done`, the first sector not yet transferred. */
static void finish_children(struct pairing *pairing, const struct event *event, uint32_t index,
                            uint64_t done) {
  uint32_t last = NO_REQUEST;
  uint32_t *link = &requests_at(&pairing->requests, index)->first_child;
  while (*link != NO_REQUEST) {
    uint32_t child = *link;
    struct open_request *request = requests_at(&pairing->requests, child);
    if (request->own_end > done) {
      last = child;
      link = &request->next_child;
      continue;
    }
    *link = request->next_child;
    finish_part(pairing, event, child);
    requests_free(&pairing->requests, child);
  }
  requests_at(&pairing->requests, index)->last_child = last;
}

/* A prefix of the request is transferred: the rest stays open. */
static int finish_prefix(struct pairing *pairing, const struct event *event, uint32_t index) {
  struct open_request *request = requests_at(&pairing->requests, index);
  uint64_t done = request->begin + event->sectors;
  requests_unlink(&pairing->requests, index);
  request->begin = done;
  finish_children(pairing, event, index, done);
  if (request->own_end <= done)
    finish_part(pairing, event, index);
  return requests_link(&pairing->requests, index);
}

/* Finds what a completion of `event->sectors` at its place completes: an issued request of just
 * that length, a longer one in part; or one that was never issued, as on devices without requests
 * (dm, md) or if the issue was lost. What had to wait and must not had no request. */
static uint32_t find(struct pairing *pairing, const struct event *event) {
  static const uint8_t states[] = {REQUEST_QUEUED, REQUEST_ISSUED, REQUEST_WAITING};
  for (unsigned i = error_of(event->record) != -EAGAIN; i < sizeof(states); i++) {
    struct request_key key = event_key(event, states[i]);
    uint32_t index = requests_find(&pairing->requests, &key);
    if (index != NO_REQUEST)
      return index;
    key.sectors = ANY_LENGTH;
    index = requests_find(&pairing->requests, &key);
    if (index != NO_REQUEST)
      return index;
  }
  return NO_REQUEST;
}

/* A completion without bytes: of a device flush, of a request whose closing flush is done, of an
 * operation that transfers nothing, or of an empty flush. */
static void complete_empty(struct pairing *pairing, const struct event *event) {
  if (event->record->category & CATEGORY_FLUSH) {
    flush_device_done(pairing, event);
    return;
  }
  struct request_key key = event_key(event, REQUEST_DRAINING);
  key.sectors = ANY_LENGTH;
  uint32_t index = requests_find(&pairing->requests, &key);
  if (index != NO_REQUEST) {
    count_request(pairing, event);
    struct open_request *request = requests_at(&pairing->requests, index);
    struct row *row = rows_at(&pairing->rows, request->row);
    row->complete_ns = event->time_ns;
    if (event->record->error)
      row->error = error_of(event->record);
    end_request_of_row(pairing, request->row, index);
    requests_unlink(&pairing->requests, index);
    requests_free(&pairing->requests, index);
    return;
  }
  key = event_key(event, REQUEST_ISSUED | REQUEST_WAITING);
  index = requests_find(&pairing->requests, &key);
  if (index != NO_REQUEST)
    finish(pairing, event, index);
  else
    flush_completed(pairing, event);
}

int complete_event(struct pairing *pairing, const struct event *event) {
  if (event->sectors == 0) {
    complete_empty(pairing, event);
    return 0;
  }
  uint32_t index = find(pairing, event);
  if (index == NO_REQUEST) {
    if (error_of(event->record) != -EAGAIN || !pairing->devices[event->device].has_requests)
      count_request(pairing, event);
    pairing->counts.unmatched[UNMATCHED_COMPLETE]++;
    return 0;
  }
  const struct open_request *request = requests_at(&pairing->requests, index);
  if (request->end - request->begin > event->sectors)
    return finish_prefix(pairing, event, index);
  finish(pairing, event, index);
  return 0;
}
