/* Empty flushes. They have no place on the device, so they are kept in order for each device. The
 * kernel serves all that wait by one flush of its own (D and C with the flush mark and no bytes)
 * and then completes each (C without the mark). */
#include "read/event.h"

/* Once its device flush is done, a flush completes at once; one that has not by then lost its
 * completion and must not take that of the next. */
#define STALE_NS 10000000u

void flush_queued(struct pairing *pairing, uint32_t index) {
  struct device *device = &pairing->devices[pieces_at(&pairing->pieces, index)->device];
  if (device->last_flush == NO_PIECE)
    device->first_flush = index;
  else
    pieces_at(&pairing->pieces, device->last_flush)->next_child = index;
  device->last_flush = index;
}

/* Takes the oldest flush from the device's list and frees it. */
static void drop_first(struct pairing *pairing, struct device *device) {
  uint32_t index = device->first_flush;
  device->first_flush = pieces_at(&pairing->pieces, index)->next_child;
  if (device->first_flush == NO_PIECE)
    device->last_flush = NO_PIECE;
  pieces_free(&pairing->pieces, index);
}

/* Drops the flushes at the front whose row has left the window or is given up. */
static void drop_ended(struct pairing *pairing, struct device *device) {
  while (device->first_flush != NO_PIECE &&
         pieces_at(&pairing->pieces, device->first_flush)->row == NO_ROW)
    drop_first(pairing, device);
}

void flush_allocated(struct pairing *pairing, const struct event *event) {
  struct device *device = &pairing->devices[event->device];
  drop_ended(pairing, device);
  uint32_t found = NO_PIECE;
  for (uint32_t i = device->first_flush; i != NO_PIECE;
       i = pieces_at(&pairing->pieces, i)->next_child) {
    const struct piece *piece = pieces_at(&pairing->pieces, i);
    if (piece->state == PIECE_QUEUED && piece->pid == event->record->pid && piece->row != NO_ROW)
      found = i;
  }
  if (found == NO_PIECE) {
    pairing->counts.unmatched[UNMATCHED_GETRQ]++;
    return;
  }
  struct piece *piece = pieces_at(&pairing->pieces, found);
  piece->state = PIECE_ALLOCATED;
  rows_at(&pairing->rows, piece->row)->getrq_ns = event->time_ns;
}

void flush_issued(struct pairing *pairing, const struct event *event) {
  /* A flush waits from its G on; a capture without that action leaves its Q. */
  uint8_t waiting = pairing->counts.actions[ACTION_GET_REQUEST] ? PIECE_ALLOCATED : PIECE_QUEUED;
  pairing->counts.device_flushes++;
  uint32_t index = pairing->devices[event->device].first_flush;
  for (; index != NO_PIECE; index = pieces_at(&pairing->pieces, index)->next_child) {
    struct piece *piece = pieces_at(&pairing->pieces, index);
    if (piece->row == NO_ROW || piece->state != waiting)
      continue;
    piece->state = PIECE_ISSUED;
    rows_at(&pairing->rows, piece->row)->issue_ns = event->time_ns;
  }
}

/* Ends a flush that waits for a device flush no longer: its own completion was lost. */
static void give_up(struct pairing *pairing, struct device *device) {
  struct piece *piece = pieces_at(&pairing->pieces, device->first_flush);
  pairing->counts.unmatched[UNMATCHED_QUEUE]++;
  complete_piece_of(pairing, piece->row, device->first_flush);
  drop_first(pairing, device);
}

static bool is_stale(const struct piece *piece, int64_t now_ns) {
  return piece->flushed_ns != NO_TIME && (uint64_t)now_ns - (uint64_t)piece->flushed_ns > STALE_NS;
}

void flush_completed(struct pairing *pairing, const struct event *event) {
  struct device *device = &pairing->devices[event->device];
  drop_ended(pairing, device);
  while (device->first_flush != device->last_flush &&
         is_stale(pieces_at(&pairing->pieces, device->first_flush), event->time_ns)) {
    give_up(pairing, device);
    drop_ended(pairing, device);
  }
  if (device->first_flush == NO_PIECE) {
    /* An empty flush has no place. What has one ended a write, whose data was counted perhaps. */
    (event->record->sector ? count_perhaps : count_request)(pairing, event);
    pairing->counts.unmatched[UNMATCHED_COMPLETE]++;
    return;
  }
  count_request(pairing, event);
  struct piece *piece = pieces_at(&pairing->pieces, device->first_flush);
  struct row *row = rows_at(&pairing->rows, piece->row);
  row->complete_ns = event->time_ns;
  row->error = complete_error(event->record);
  complete_piece_of(pairing, piece->row, device->first_flush);
  drop_first(pairing, device);
}

void flush_device_done(struct pairing *pairing, const struct event *event) {
  bool is_served = false;
  uint32_t index = pairing->devices[event->device].first_flush;
  for (; index != NO_PIECE; index = pieces_at(&pairing->pieces, index)->next_child) {
    struct piece *piece = pieces_at(&pairing->pieces, index);
    if (piece->state == PIECE_ISSUED && piece->flushed_ns == NO_TIME) {
      piece->flushed_ns = event->time_ns;
      is_served = true;
    }
  }
  /* Devices without requests (dm, md) complete the flush itself, with its mark. */
  if (!is_served && pairing->counts.device_flushes == 0)
    flush_completed(pairing, event);
  else
    count_device_flush(pairing, event);
}
