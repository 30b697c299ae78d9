/* Events between queueing and completion: allocate, insert, merge, issue, requeue. */
#include <errno.h>

#include "read/event.h"

static bool is_empty_flush(const struct event *event) {
  return event->sectors == 0 && (event->record->category & CATEGORY_FLUSH);
}

/* Finds the piece of the event, of just its length if there is one and of any length if not. */
static uint32_t find(struct pairing *pairing, const struct event *event, uint8_t states) {
  struct piece_key key = event_key(event, states);
  uint32_t index = pieces_find(&pairing->pieces, &key);
  if (index != NO_PIECE || event->sectors == 0)
    return index;
  key.sectors = ANY_LENGTH;
  return pieces_find(&pairing->pieces, &key);
}

/* Like find; makes a row without queue time when the request was never seen queued. */
static int find_or_add(struct pairing *pairing, const struct event *event, uint8_t states,
                       enum unmatched unmatched, uint32_t *out) {
  *out = find(pairing, event, states);
  if (*out != NO_PIECE)
    return 0;
  pairing->counts.unmatched[unmatched]++;
  return queue_row(pairing, event, out);
}

/* Gives the row of a piece, or NULL when it has left. */
static struct row *row_of(struct pairing *pairing, const struct piece *piece) {
  return piece->row == NO_ROW ? NULL : rows_at(&pairing->rows, piece->row);
}

int getrq_event(struct pairing *pairing, const struct event *event) {
  if (is_empty_flush(event)) {
    flush_allocated(pairing, event);
    return 0;
  }
  uint32_t index;
  if (find_or_add(pairing, event, PIECE_QUEUED, UNMATCHED_GETRQ, &index))
    return -ENOMEM;
  struct piece *piece = pieces_at(&pairing->pieces, index);
  struct row *row = row_of(pairing, piece);
  piece->state = PIECE_ALLOCATED;
  if (row)
    event_stamp(&row->getrq_ns, event->time_ns);
  return 0;
}

int insert_event(struct pairing *pairing, const struct event *event) {
  if (is_empty_flush(event))
    return 0;
  uint32_t index;
  if (find_or_add(pairing, event, PIECE_WAITING, UNMATCHED_INSERT, &index))
    return -ENOMEM;
  struct piece *piece = pieces_at(&pairing->pieces, index);
  struct row *row = row_of(pairing, piece);
  piece->state = PIECE_INSERTED;
  if (row)
    event_stamp(&row->insert_ns, event->time_ns);
  return 0;
}

/* Finds the request that the event's sectors were merged into. */
static uint32_t find_carrier(struct pairing *pairing, const struct event *event) {
  struct piece_key key = event_key(event, PIECE_WAITING);
  key.sectors = ANY_LENGTH;
  if (event->record->action == ACTION_BACK_MERGE)
    return pieces_find_end(&pairing->pieces, &key);
  key.sector += event->sectors;
  return pieces_find(&pairing->pieces, &key);
}

/* Hangs the child, and what had been merged into it, on the carrier. */
static void adopt(struct pairing *pairing, uint32_t carrier_index, uint32_t child_index) {
  struct piece *carrier = pieces_at(&pairing->pieces, carrier_index);
  struct piece *child = pieces_at(&pairing->pieces, child_index);
  child->state = PIECE_MERGED;
  child->next_child = child->first_child;
  uint32_t last = child->first_child == NO_PIECE ? child_index : child->last_child;
  child->first_child = child->last_child = NO_PIECE;
  if (carrier->last_child == NO_PIECE)
    carrier->first_child = child_index;
  else
    pieces_at(&pairing->pieces, carrier->last_child)->next_child = child_index;
  carrier->last_child = last;
}

static void note_merge(struct pairing *pairing, const struct piece *carrier,
                       const struct piece *child, int64_t time_ns) {
  struct row *row = row_of(pairing, child);
  if (!row)
    return;
  event_stamp(&row->merge_ns, time_ns);
  /* A row that was split may have pieces elsewhere: it has no one carrier. */
  if (carrier && carrier->row != NO_ROW && row->split_count == 0 && row->merged_into < 0)
    row->merged_into = (int64_t)carrier->row;
}

int merge_event(struct pairing *pairing, const struct event *event) {
  if (event->sectors == 0) {
    pairing->counts.unmatched[UNMATCHED_MERGE]++;
    return 0;
  }
  uint32_t child_index = find(pairing, event, PIECE_WAITING);
  uint32_t carrier_index = find_carrier(pairing, event);
  bool is_whole = child_index != NO_PIECE && carrier_index != NO_PIECE;
  if (!is_whole)
    pairing->counts.unmatched[UNMATCHED_MERGE]++;
  if (carrier_index == NO_PIECE)
    return 0;

  /* The carrier grows even if the I/O that joined it was not seen queued. */
  pieces_unlink(&pairing->pieces, carrier_index);
  struct piece *carrier = pieces_at(&pairing->pieces, carrier_index);
  if (event->record->action == ACTION_BACK_MERGE)
    carrier->end += event->sectors;
  else
    carrier->begin -= event->sectors;
  if (is_whole) {
    pieces_unlink(&pairing->pieces, child_index);
    note_merge(pairing, carrier, pieces_at(&pairing->pieces, child_index), event->time_ns);
    adopt(pairing, carrier_index, child_index);
  }
  return pieces_link(&pairing->pieces, carrier_index);
}

/* The request is longer or shorter than the events before said: the device's word counts. */
static int correct_length(struct pairing *pairing, const struct event *event, uint32_t index) {
  struct piece *piece = pieces_at(&pairing->pieces, index);
  if (piece->end - piece->begin == event->sectors)
    return 0;
  pieces_unlink(&pairing->pieces, index);
  piece->end = piece->begin + event->sectors;
  return pieces_link(&pairing->pieces, index);
}

static void stamp_issue(struct pairing *pairing, const struct piece *piece, int64_t time_ns) {
  struct row *row = row_of(pairing, piece);
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
  if (find_or_add(pairing, event, PIECE_WAITING, UNMATCHED_ISSUE, &index) ||
      correct_length(pairing, event, index))
    return -ENOMEM;
  struct piece *piece = pieces_at(&pairing->pieces, index);
  struct row *row = row_of(pairing, piece);
  piece->state = PIECE_ISSUED;
  piece->has_closing_flush = row && has_closing_flush(row, event->record);
  stamp_issue(pairing, piece, event->time_ns);
  for (uint32_t i = piece->first_child; i != NO_PIECE;
       i = pieces_at(&pairing->pieces, i)->next_child)
    stamp_issue(pairing, pieces_at(&pairing->pieces, i), event->time_ns);
  return 0;
}

static void count_requeue(struct pairing *pairing, const struct piece *piece) {
  struct row *row = row_of(pairing, piece);
  if (row)
    row->requeue_count++;
}

int requeue_event(struct pairing *pairing, const struct event *event) {
  if (is_empty_flush(event))
    return 0;
  uint32_t index = find(pairing, event, PIECE_ISSUED);
  if (index == NO_PIECE) {
    pairing->counts.unmatched[UNMATCHED_REQUEUE]++;
    return 0;
  }
  struct piece *piece = pieces_at(&pairing->pieces, index);
  piece->state = PIECE_INSERTED;
  count_requeue(pairing, piece);
  for (uint32_t i = piece->first_child; i != NO_PIECE;
       i = pieces_at(&pairing->pieces, i)->next_child)
    count_requeue(pairing, pieces_at(&pairing->pieces, i));
  return 0;
}
