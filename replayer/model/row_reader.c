#include "model/row_reader.h"

#include <errno.h>

#include "model/block_steps.h"

#define SECTOR_BYTES 512
#define SECTOR_MAX (INT64_C(1) << 57) /* additions of sectors cannot overflow below it */
#define LENGTH_MAX UINT32_MAX         /* block layers count a request's bytes in 32 bits */

/* How many rows ahead the map's directory, its run and the block's entry are brought closer. */
enum { SLOT_AHEAD = 48, RUN_AHEAD = 32, BLOCK_AHEAD = 16 };

int row_reader_init(struct row_reader *reader, uint32_t device_count, bool as_issued,
                    struct tk_placement_totals *totals) {
  *reader = (struct row_reader){.device_count = device_count, .totals = totals};
  return as_issued ? issue_queue_new(&reader->queue) : 0;
}

static int hand_over(const struct issue_request *request, const struct row_sink *sink) {
  const int error = request->is_preflush ? sink->flush(sink->context, request) : 0;
  return error ? error : sink->transfer(sink->context, request);
}

static int drain(struct row_reader *reader, int64_t now_ns, const struct row_sink *sink) {
  struct issue_request issued;
  while (reader->queue != NULL && issue_queue_pop(reader->queue, now_ns, &issued)) {
    const int error = hand_over(&issued, sink);
    if (error)
      return error;
  }
  return 0;
}

/* Hands over the flush of a request whose data do not follow it. */
static int flush_alone(struct issue_request *request, const struct row_sink *sink) {
  request->is_preflush = false;
  return sink->flush(sink->context, request);
}

/* `request` arrives when it was queued until it is known to have been issued. */
static int add_transfer(struct row_reader *reader, struct issue_request *request, int64_t issue_ns,
                        int64_t merged_into, const struct row_sink *sink) {
  if (reader->queue == NULL)
    return hand_over(request, sink);
  if (merged_into >= 0) {
    if (issue_queue_merge(reader->queue, merged_into, request) == 0)
      return request->is_preflush ? flush_alone(request, sink) : 0;
    reader->totals->orphan_merges++;
    return hand_over(request, sink);
  }
  if (issue_ns < 0) {
    reader->totals->not_issued++;
    return request->is_preflush ? flush_alone(request, sink) : 0;
  }
  request->issue_ns = issue_ns;
  const int error = issue_queue_push(reader->queue, request);
  if (error == -EEXIST)
    reader->totals->bad_request_id = request->request_id;
  return error;
}

static bool is_row_valid(const struct row_reader *reader, const struct tk_placement_rows *rows,
                         int64_t row) {
  return rows->action[row] <= TK_ACTION_UNCHARGED && rows->role[row] < TK_ROLES &&
         rows->device[row] >= 0 && (uint32_t)rows->device[row] < reader->device_count;
}

static bool is_possible(int64_t sector, int64_t length_bytes) {
  return sector >= 0 && sector < SECTOR_MAX && length_bytes >= 0 && length_bytes <= LENGTH_MAX;
}

static int add_row(struct row_reader *reader, const struct tk_placement_rows *rows, int64_t row,
                   const struct row_sink *sink) {
  if (!is_row_valid(reader, rows, row)) {
    reader->totals->bad_request_id = rows->request_id[row];
    return -EINVAL;
  }
  const uint8_t action = rows->action[row];
  struct issue_request request = {
      .request_id = rows->request_id[row],
      .issue_ns = rows->queue_ns[row],
      .sector = rows->sector[row],
      .sectors =
          rows->length_bytes[row] / SECTOR_BYTES + (rows->length_bytes[row] % SECTOR_BYTES > 0),
      .device = (uint32_t)rows->device[row],
      .role = rows->role[row],
      .is_write = action == TK_ACTION_WRITE,
      .is_fua = rows->is_fua[row] != 0,
      .is_meta = rows->is_meta != NULL && rows->is_meta[row] != 0,
  };
  const bool is_flush = action == TK_ACTION_FLUSH || rows->is_preflush[row];
  const bool is_data = action <= TK_ACTION_WRITE && rows->length_bytes[row] != 0;
  const bool is_transfer = is_data && is_possible(rows->sector[row], rows->length_bytes[row]);
  reader->totals->uncharged += action == TK_ACTION_UNCHARGED;
  reader->totals->impossible += is_data && !is_transfer;
  reader->totals->flushes[request.role] += is_flush;
  request.is_preflush = is_flush && is_transfer;
  const int error = is_flush || is_data ? drain(reader, rows->queue_ns[row], sink) : 0;
  if (error || !is_transfer)
    return error || !is_flush ? error : flush_alone(&request, sink);
  return add_transfer(reader, &request, rows->issue_ns[row], rows->merged_into[row], sink);
}

/* Sets the key of a row's first block; returns false where it has none. */
static bool find_key(const struct row_reader *reader, const struct tk_placement_rows *rows,
                     int64_t row, int64_t *key) {
  if (row >= rows->count || rows->device[row] < 0 ||
      (uint32_t)rows->device[row] >= reader->device_count)
    return false;
  const struct tk_placement_device *device = &reader->lookup.devices[rows->device[row]];
  const int64_t block = rows->sector[row] / BLOCK_SECTORS;
  *key = block - device->first_block + device->first_key;
  return block >= device->first_block && block - device->first_block < device->blocks;
}

static void look_ahead(const struct row_reader *reader, const struct tk_placement_rows *rows,
                       int64_t row) {
  const struct row_lookup *lookup = &reader->lookup;
  int64_t key;
  uint32_t following;
  if (find_key(reader, rows, row + SLOT_AHEAD, &key))
    block_map_prefetch_slot(lookup->map, key);
  if (find_key(reader, rows, row + RUN_AHEAD, &key))
    block_map_prefetch_run(lookup->map, key);
  if (lookup->blocks == NULL || !find_key(reader, rows, row + BLOCK_AHEAD, &key))
    return;
  const uint32_t index = block_map_find(lookup->map, key, &following);
  if (index != BLOCK_MAP_NONE)
    __builtin_prefetch((const char *)lookup->blocks + index * lookup->block_bytes);
}

int row_reader_add(struct row_reader *reader, const struct tk_placement_rows *rows,
                   const struct row_sink *sink) {
  for (int64_t row = 0; row < rows->count; row++) {
    if (reader->lookup.map != NULL)
      look_ahead(reader, rows, row);
    const int error = add_row(reader, rows, row, sink);
    if (error)
      return error;
  }
  return 0;
}

int row_reader_finish(struct row_reader *reader, const struct row_sink *sink) {
  return drain(reader, INT64_MAX, sink);
}

void row_reader_free(struct row_reader *reader) { issue_queue_free(reader->queue); }
