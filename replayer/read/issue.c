/* Events between queueing and completion: allocate, insert, merge, issue, requeue. */
#include <errno.h>

#include "read/event.h"

static bool is_empty_flush(const struct event *event) {
  return event->sectors == 0 && (event->record->category & CATEGORY_FLUSH);
}

/* Finds the request of the event, of just its length if there is one and of any length if not. */
static uint32_t find(struct pairing *pairing, const struct event *event, uint8_t states) {
  struct request_key key = event_key(event, states);
  uint32_t index = requests_find(&pairing->requests, &key);
  if (index != NO_REQUEST || event->sectors == 0)
    return index;
  key.sectors = ANY_LENGTH;
  return requests_find(&pairing->requests, &key);
}

/* Like find; makes a row without queue time when the request was never seen queued. */
static int find_or_add(struct pairing *pairing, const struct event *event, uint8_t states,
                       enum unmatched unmatched, uint32_t *out) {
  *out = find(pairing, event, states);
  if (*out != NO_REQUEST)
    return 0;
  pairing->counts.unmatched[unmatched]++;
  return queue_row(pairing, event, out);
}

/* Gives the row of a request, or NULL when it has left. */
static struct row *row_of(struct pairing *pairing, const struct open_request *request) {
  return request->row == NO_ROW ? NULL : rows_at(&pairing->rows, request->row);
}

int getrq_event(struct pairing *pairing, const struct event *event) {
  if (is_empty_flush(event)) {
    flush_allocated(pairing, event);
    return 0;
  }
  uint32_t index;
  if (find_or_add(pairing, event, REQUEST_QUEUED, UNMATCHED_GETRQ, &index))
    return -ENOMEM;
  struct open_request *request = requests_at(&pairing->requests, index);
  struct row *row = row_of(pairing, request);
  pairing->devices[event->device].has_requests = true;
  request->state = REQUEST_ALLOCATED;
  if (row)
    event_stamp(&row->getrq_ns, event->time_ns);
  return 0;
}

int insert_event(struct pairing *pairing, const struct event *event) {
  if (is_empty_flush(event))
    return 0;
  uint32_t index;
  if (find_or_add(pairing, event, REQUEST_WAITING, UNMATCHED_INSERT, &index))
    return -ENOMEM;
  struct open_request *request = requests_at(&pairing->requests, index);
  struct row *row = row_of(pairing, request);
  request->state = REQUEST_INSERTED;
  if (row)
    event_stamp(&row->insert_ns, event->time_ns);
  return 0;
}

/* Finds the request that the event's sectors were merged into. */
static uint32_t find_merge_target(struct pairing *pairing, const struct event *event) {
  struct request_key key = event_key(event, REQUEST_WAITING);
  key.sectors = ANY_LENGTH;
  if (event->record->action == ACTION_BACK_MERGE)
    return requests_find_end(&pairing->requests, &key);
  key.sector += event->sectors;
  return requests_find(&pairing->requests, &key);
}

/* Appends the child, and what had been merged into it, to the children of the merge target. */
static void append_child(struct pairing *pairing, uint32_t target_index, uint32_t child_index) {
  struct open_request *target = requests_at(&pairing->requests, target_index);
  struct open_request *child = requests_at(&pairing->requests, child_index);
  child->state = REQUEST_MERGED;
  child->next_child = child->first_child;
  uint32_t last = child->first_child == NO_REQUEST ? child_index : child->last_child;
  child->first_child = child->last_child = NO_REQUEST;
  if (target->last_child == NO_REQUEST)
    target->first_child = child_index;
  else
    requests_at(&pairing->requests, target->last_child)->next_child = child_index;
  target->last_child = last;
}

static void note_merge(struct pairing *pairing, const struct open_request *target,
                       const struct open_request *child, int64_t time_ns) {
  struct row *row = row_of(pairing, child);
  if (!row)
    return;
  event_stamp(&row->merge_ns, time_ns);
  /* A row that was split may have requests elsewhere: it has no one merge target. */
  if (target && target->row != NO_ROW && row->split_count == 0 && row->merged_into < 0)
    row->merged_into = (int64_t)target->row;
}

int merge_event(struct pairing *pairing, const struct event *event) {
  if (event->sectors == 0) {
    pairing->counts.unmatched[UNMATCHED_MERGE]++;
    return 0;
  }
  uint32_t child_index = find(pairing, event, REQUEST_WAITING);
  uint32_t target_index = find_merge_target(pairing, event);
  bool is_whole = child_index != NO_REQUEST && target_index != NO_REQUEST;
  if (!is_whole)
    pairing->counts.unmatched[UNMATCHED_MERGE]++;
  if (target_index == NO_REQUEST)
    return 0;

  /* The merge target grows even if the I/O that joined it was not seen queued. */
  requests_unlink(&pairing->requests, target_index);
  struct open_request *target = requests_at(&pairing->requests, target_index);
  if (event->record->action == ACTION_BACK_MERGE)
    target->end += event->sectors;
  else
    target->begin -= event->sectors;
  if (is_whole) {
    requests_unlink(&pairing->requests, child_index);
    note_merge(pairing, target, requests_at(&pairing->requests, child_index), event->time_ns);
    append_child(pairing, target_index, child_index);
  }
  return requests_link(&pairing->requests, target_index);
}

/* The request is longer or shorter than the events before said: what the device got counts. */
static int correct_length(struct pairing *pairing, const struct event *event, uint32_t index) {
  struct open_request *request = requests_at(&pairing->requests, index);
  if (request->end - request->begin == event->sectors)
    return 0;
  requests_unlink(&pairing->requests, index);
  request->end = request->begin + event->sectors;
  return requests_link(&pairing->requests, index);
}

static void stamp_issue(struct pairing *pairing, const struct open_request *request,
                        int64_t time_ns) {
  struct row *row = row_of(pairing, request);
  if (row)
    event_stamp(&row->issue_ns, time_ns);
}

/* The kernel's flush machinery takes flags off a request that it serves by flushes of its own; such
 * a request ends by a completion without bytes. */
static bool has_closing_flush(const struct row *row, const struct record *issue) {
  bool lost_preflush = (row->flags & ROW_PREFLUSH) && !(issue->category & CATEGORY_FLUSH);
  bool lost_fua = (row->flags & ROW_FUA) && !(issue->category & CATEGORY_FUA);
  return lost_preflush || lost_fua;
}

int issue_event(struct pairing *pairing, const struct event *event) {
  if (is_empty_flush(event)) {
    flush_issued(pairing, event);
    return 0;
  }
  uint32_t index;
  if (find_or_add(pairing, event, REQUEST_WAITING, UNMATCHED_ISSUE, &index) ||
      correct_length(pairing, event, index))
    return -ENOMEM;
  struct open_request *request = requests_at(&pairing->requests, index);
  struct row *row = row_of(pairing, request);
  pairing->devices[event->device].has_requests = true;
  request->state = REQUEST_ISSUED;
  request->has_closing_flush = row && has_closing_flush(row, event->record);

  /* What was merged into the request goes to the device with it. */
  stamp_issue(pairing, request, event->time_ns);
  for (uint32_t i = request->first_child; i != NO_REQUEST;
       i = requests_at(&pairing->requests, i)->next_child)
    stamp_issue(pairing, requests_at(&pairing->requests, i), event->time_ns);
  return 0;
}

static void count_requeue(struct pairing *pairing, const struct open_request *request) {
  struct row *row = row_of(pairing, request);
  if (row)
    row->requeue_count++;
}

int requeue_event(struct pairing *pairing, const struct event *event) {
  if (is_empty_flush(event))
    return 0;
  uint32_t index = find(pairing, event, REQUEST_ISSUED);
  if (index == NO_REQUEST) {
    pairing->counts.unmatched[UNMATCHED_REQUEUE]++;
    return 0;
  }
  struct open_request *request = requests_at(&pairing->requests, index);
  request->state = REQUEST_INSERTED;
  count_requeue(pairing, request);
  for (uint32_t i = request->first_child; i != NO_REQUEST;
       i = requests_at(&pairing->requests, i)->next_child)
    count_requeue(pairing, requests_at(&pairing->requests, i));
  return 0;
}
