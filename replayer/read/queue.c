/* Events that make rows: queue, remap, split. */
#include <errno.h>
#include <stdio.h>

#include "common/hash.h"
#include "read/event.h"

static enum operation operation_of(const struct record *record) {
  if (record->category & CATEGORY_DISCARD)
    return OPERATION_DISCARD;
  if (record->category & CATEGORY_ZONE)
    return OPERATION_ZONE;
  if (record->bytes == 0)
    return record->category & CATEGORY_FLUSH ? OPERATION_FLUSH : OPERATION_OTHER;
  if (record->category & CATEGORY_WRITE)
    return OPERATION_WRITE;
  return record->category & CATEGORY_READ ? OPERATION_READ : OPERATION_OTHER;
}

static uint8_t flags_of(const struct record *record) {
  uint64_t category = record->category;
  return (uint8_t)((category & CATEGORY_SYNC ? ROW_SYNC : 0) |
                   (category & CATEGORY_META ? ROW_META : 0) |
                   (category & CATEGORY_FUA ? ROW_FUA : 0) |
                   (category & CATEGORY_FLUSH ? ROW_PREFLUSH : 0) |
                   (category & CATEGORY_AHEAD ? ROW_READAHEAD : 0));
}

static void fill_row(struct pairing *pairing, const struct event *event, struct row *row) {
  const struct record *record = event->record;
  struct device *device = &pairing->devices[event->device];
  const uint32_t *process = idmap_get(&pairing->process_of_pid, record->pid);
  row->device = device->name;
  row->sector = (int64_t)record->sector;
  row->length_bytes = record->bytes;
  row->operation = (uint8_t)operation_of(record);
  row->flags = flags_of(record);
  row->process = process ? (int32_t)*process : -1;
  row->pid = (int32_t)record->pid;
  row->cpu = (int32_t)record->cpu;
  row->depth = ++device->open;
  row->open_pieces = 1;
}

static void fill_piece(const struct event *event, uint64_t request_id, struct piece *piece) {
  piece->row = request_id;
  piece->device = event->device;
  piece->pid = event->record->pid;
  piece->kind = event->kind;
  piece->state = PIECE_QUEUED;
  piece->begin = piece->own_begin = event->record->sector;
  piece->end = piece->own_end = event->record->sector + event->sectors;
}

int queue_row(struct pairing *pairing, const struct event *event, uint32_t *out) {
  struct row *row = rows_append(&pairing->rows);
  uint32_t index = row ? pieces_new(&pairing->pieces) : NO_PIECE;
  if (index == NO_PIECE)
    return -ENOMEM;
  fill_row(pairing, event, row);
  fill_piece(event, pairing->rows.tail - 1, pieces_at(&pairing->pieces, index));
  row->piece = index;
  *out = index;
  if (row->operation != OPERATION_FLUSH)
    return pieces_link(&pairing->pieces, index);
  flush_queued(pairing, index);
  return 0;
}

static struct remap *remap_place(struct pairing *pairing, uint32_t device, uint64_t sector) {
  return &pairing->remaps[hash_mix(sector ^ ((uint64_t)device << 48)) & (REMAPS_PENDING - 1)];
}

/* Returns the remap that led to this place, which is then no longer pending, or NULL. */
static const struct remap *take_remap(struct pairing *pairing, const struct event *event,
                                      uint32_t device, uint64_t sector) {
  struct remap *remap = remap_place(pairing, device, sector);
  bool is_it = remap->is_pending && remap->device == device && remap->sector == sector &&
               remap->kind == event->kind;
  if (!is_it)
    return NULL;
  remap->is_pending = false;
  return remap;
}

/* Gives the name of a partition, "major,minor", as an index into partition_names. */
static int32_t partition_name(struct pairing *pairing, uint32_t number) {
  const uint32_t *known = idmap_get(&pairing->partition_index, number);
  if (known)
    return (int32_t)*known;
  char text[32];
  int length = snprintf(text, sizeof(text), "%u,%u", number >> 20, number & 0xfffff);
  int32_t name = names_add(&pairing->partition_names, text, (size_t)length);
  if (name < 0 || idmap_set(&pairing->partition_index, number, (uint32_t)name))
    return -ENOMEM;
  return name;
}

/* Kernels before 4.12 queue the rest of a split I/O once more. Returns whether this is such a Q. */
static bool is_remainder(struct pairing *pairing, const struct event *event) {
  struct piece_key key = event_key(event, PIECE_QUEUED);
  uint32_t index = pieces_find(&pairing->pieces, &key);
  if (index == NO_PIECE)
    return false;
  struct piece *piece = pieces_at(&pairing->pieces, index);
  bool is_it = piece->is_remainder && piece->pid == event->record->pid;
  piece->is_remainder = piece->is_remainder && !is_it;
  return is_it;
}

int queue_event(struct pairing *pairing, const struct event *event) {
  const struct remap *remap = take_remap(pairing, event, event->device, event->record->sector);
  if (pairing->counts.actions[ACTION_SPLIT] && is_remainder(pairing, event)) {
    pairing->counts.requeued_remainders++;
    return 0;
  }
  uint32_t index;
  if (queue_row(pairing, event, &index))
    return -ENOMEM;
  struct row *row = rows_at(&pairing->rows, pairing->rows.tail - 1);
  row->queue_ns = event->time_ns;
  if (!remap)
    return 0;
  row->partition = partition_name(pairing, remap->from);
  return row->partition < 0 ? -ENOMEM : 0;
}

/* Remembers where the I/O that is queued next comes from. In a stack of mappings the last one
 * counts: it names the partition of the device that the queue event is of. */
int remap_event(struct pairing *pairing, const struct event *event) {
  const struct record *record = event->record;
  if (record->payload_size < 16) {
    pairing->counts.unmatched[UNMATCHED_REMAP]++;
    return 0;
  }
  (void)take_remap(pairing, event, event->device, record_be64(record->payload + 8));
  struct remap *remap = remap_place(pairing, event->device, record->sector);
  if (remap->is_pending)
    pairing->counts.unmatched[UNMATCHED_REMAP]++;
  *remap = (struct remap){.sector = record->sector,
                          .device = event->device,
                          .from = record_be32(record->payload),
                          .kind = event->kind,
                          .is_pending = true};
  return 0;
}

/* Adds a piece for the sectors from `middle` on. */
static int divide(struct pairing *pairing, uint32_t index, uint64_t middle) {
  uint32_t rest_index = pieces_new(&pairing->pieces);
  if (rest_index == NO_PIECE)
    return -ENOMEM;
  pieces_unlink(&pairing->pieces, index);
  struct piece *piece = pieces_at(&pairing->pieces, index);
  struct piece *rest = pieces_at(&pairing->pieces, rest_index);
  struct row *row = rows_at(&pairing->rows, piece->row);
  *rest = (struct piece){.row = piece->row,
                         .begin = middle,
                         .end = piece->end,
                         .own_begin = middle,
                         .own_end = piece->end,
                         .flushed_ns = NO_TIME,
                         .device = piece->device,
                         .pid = piece->pid,
                         .first_child = NO_PIECE,
                         .last_child = NO_PIECE,
                         .next_child = NO_PIECE,
                         .next_of_row = row->piece,
                         .previous_of_row = NO_PIECE,
                         .kind = piece->kind,
                         .state = PIECE_QUEUED,
                         .is_remainder = true};
  pieces_at(&pairing->pieces, row->piece)->previous_of_row = rest_index;
  row->piece = rest_index;
  row->open_pieces++;
  row->split_count++;
  piece->end = piece->own_end = middle;
  piece->is_remainder = false;
  return pieces_link(&pairing->pieces, index) || pieces_link(&pairing->pieces, rest_index) ? -ENOMEM
                                                                                           : 0;
}

int split_event(struct pairing *pairing, const struct event *event) {
  const struct record *record = event->record;
  struct piece_key key = event_key(event, PIECE_QUEUED);
  key.sectors = ANY_LENGTH;
  uint32_t index = record->payload_size < 8 ? NO_PIECE : pieces_find(&pairing->pieces, &key);
  uint64_t middle = record_be64(record->payload);
  if (index != NO_PIECE) {
    const struct piece *piece = pieces_at(&pairing->pieces, index);
    /* The kernel splits before it merges, and never what is done already. */
    bool is_alone = piece->row != NO_ROW && piece->first_child == NO_PIECE;
    if (is_alone && middle > piece->begin && middle < piece->end)
      return divide(pairing, index, middle);
  }
  pairing->counts.unmatched[UNMATCHED_SPLIT]++;
  return 0;
}
