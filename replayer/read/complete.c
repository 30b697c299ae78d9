/* Completion, whole and in part, and the end of rows that never complete. */
#include "read/event.h"

/* Takes the piece out of its row's chain; the row is done when it was the last. */
void complete_piece_of(struct pairing *pairing, uint64_t request_id, uint32_t index) {
  struct piece *piece = pieces_at(&pairing->pieces, index);
  struct row *row = rows_at(&pairing->rows, request_id);
  if (piece->previous_of_row == NO_PIECE)
    row->piece = piece->next_of_row;
  else
    pieces_at(&pairing->pieces, piece->previous_of_row)->next_of_row = piece->next_of_row;
  if (piece->next_of_row != NO_PIECE)
    pieces_at(&pairing->pieces, piece->next_of_row)->previous_of_row = piece->previous_of_row;
  piece->row = NO_ROW;
  if (--row->open_pieces > 0)
    return;
  row->is_done = true;
  pairing->devices[piece->device].open--;
}

/* The kernel stores a negative errno in 16 bits; some tracers stored it without the sign. */
int32_t complete_error(const struct record *record) {
  int32_t error = (int16_t)record->error;
  return error > 0 ? -error : error;
}

/* All sectors of the row's piece have been transferred. */
static void finish_part(struct pairing *pairing, const struct event *event, uint32_t index) {
  const struct piece *piece = pieces_at(&pairing->pieces, index);
  if (piece->row == NO_ROW)
    return;
  struct row *row = rows_at(&pairing->rows, piece->row);
  row->transfer_ns = row->complete_ns = event->time_ns;
  if (event->record->error)
    row->error = complete_error(event->record);
  complete_piece_of(pairing, piece->row, index);
}

/* The whole request is transferred: ends it and all that was merged into it. */
static void finish(struct pairing *pairing, const struct event *event, uint32_t index) {
  uint32_t child = pieces_at(&pairing->pieces, index)->first_child;
  for (uint32_t next; child != NO_PIECE; child = next) {
    next = pieces_at(&pairing->pieces, child)->next_child;
    finish_part(pairing, event, child);
    pieces_free(&pairing->pieces, child);
  }
  struct piece *piece = pieces_at(&pairing->pieces, index);
  piece->first_child = piece->last_child = NO_PIECE;
  if (!piece->has_closing_flush)
    count_request(pairing, event);
  if (piece->has_closing_flush && piece->row != NO_ROW) {
    struct row *row = rows_at(&pairing->rows, piece->row);
    row->transfer_ns = row->complete_ns = event->time_ns;
    if (event->record->error)
      row->error = complete_error(event->record);
    piece->state = PIECE_DRAINING;
    return;
  }
  finish_part(pairing, event, index);
  pieces_unlink(&pairing->pieces, index);
  pieces_free(&pairing->pieces, index);
}

/* Ends those merged I/Os that lie wholly before `done`, the first sector not yet transferred. */
static void finish_children(struct pairing *pairing, const struct event *event, uint32_t index,
                            uint64_t done) {
  uint32_t last = NO_PIECE;
  uint32_t *link = &pieces_at(&pairing->pieces, index)->first_child;
  while (*link != NO_PIECE) {
    uint32_t child = *link;
    struct piece *piece = pieces_at(&pairing->pieces, child);
    if (piece->own_end > done) {
      last = child;
      link = &piece->next_child;
      continue;
    }
    *link = piece->next_child;
    finish_part(pairing, event, child);
    pieces_free(&pairing->pieces, child);
  }
  pieces_at(&pairing->pieces, index)->last_child = last;
}

/* A prefix of the request is transferred: the rest stays open. */
static int finish_prefix(struct pairing *pairing, const struct event *event, uint32_t index) {
  struct piece *piece = pieces_at(&pairing->pieces, index);
  uint64_t done = piece->begin + event->sectors;
  pieces_unlink(&pairing->pieces, index);
  piece->begin = done;
  finish_children(pairing, event, index, done);
  if (piece->own_end <= done)
    finish_part(pairing, event, index);
  return pieces_link(&pairing->pieces, index);
}

/* Finds what a completion of `event->sectors` at its place completes: an issued request of just
 * that length, a longer one in part; or one that was never issued, as on devices without requests
 * (dm, md) or if the issue was lost. */
static uint32_t find(struct pairing *pairing, const struct event *event) {
  static const uint8_t states[] = {PIECE_ISSUED, PIECE_WAITING};
  for (unsigned i = 0; i < sizeof(states); i++) {
    struct piece_key key = event_key(event, states[i]);
    uint32_t index = pieces_find(&pairing->pieces, &key);
    if (index != NO_PIECE)
      return index;
    key.sectors = ANY_LENGTH;
    index = pieces_find(&pairing->pieces, &key);
    if (index != NO_PIECE)
      return index;
  }
  return NO_PIECE;
}

/* A completion without bytes: of a device flush, of a request whose closing flush is done, of an
 * operation that transfers nothing, or of an empty flush. */
static void complete_empty(struct pairing *pairing, const struct event *event) {
  if (event->record->category & CATEGORY_FLUSH) {
    flush_device_done(pairing, event);
    return;
  }
  struct piece_key key = event_key(event, PIECE_DRAINING);
  key.sectors = ANY_LENGTH;
  uint32_t index = pieces_find(&pairing->pieces, &key);
  if (index != NO_PIECE) {
    count_request(pairing, event);
    struct piece *piece = pieces_at(&pairing->pieces, index);
    struct row *row = rows_at(&pairing->rows, piece->row);
    row->complete_ns = event->time_ns;
    if (event->record->error)
      row->error = complete_error(event->record);
    complete_piece_of(pairing, piece->row, index);
    pieces_unlink(&pairing->pieces, index);
    pieces_free(&pairing->pieces, index);
    return;
  }
  key = event_key(event, PIECE_ISSUED | PIECE_WAITING);
  index = pieces_find(&pairing->pieces, &key);
  if (index != NO_PIECE)
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
  if (index == NO_PIECE) {
    count_request(pairing, event);
    pairing->counts.unmatched[UNMATCHED_COMPLETE]++;
    return 0;
  }
  const struct piece *piece = pieces_at(&pairing->pieces, index);
  if (piece->end - piece->begin > event->sectors)
    return finish_prefix(pairing, event, index);
  finish(pairing, event, index);
  return 0;
}
