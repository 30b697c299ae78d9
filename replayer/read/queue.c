/* Events that make rows: queue, remap, split. */
#include <errno.h>
#include <stdio.h>

#include "common/hash.h"
#include "read/event.h"

static enum row_operation zone_operation_of(uint64_t category) {
  switch (category & CATEGORY_ZONE) {
  case CATEGORY_ZONE_APPEND:
    return OPERATION_ZONE_APPEND;
  case CATEGORY_ZONE_RESET:
    return OPERATION_ZONE_RESET;
  case CATEGORY_ZONE_RESET_ALL:
    return OPERATION_ZONE_RESET_ALL;
  case CATEGORY_ZONE_OPEN:
    return OPERATION_ZONE_OPEN;
  case CATEGORY_ZONE_CLOSE:
    return OPERATION_ZONE_CLOSE;
  case CATEGORY_ZONE_FINISH:
    return OPERATION_ZONE_FINISH;
  }
  return OPERATION_ZONE;
}

static enum row_operation operation_of(const struct record *record) {
  if (record->category & CATEGORY_DISCARD)
    return OPERATION_DISCARD;
  if (record->category & CATEGORY_ZONE)
    return zone_operation_of(record->category);
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
  row->cgroup = -1;
  row->depth = ++device->open;
  row->open_requests = 1;
}

static void fill_request(const struct event *event, uint64_t request_id,
                         struct open_request *request) {
  request->row = request_id;
  request->device = event->device;
  request->pid = event->record->pid;
  request->kind = event->kind;
  request->state = REQUEST_QUEUED;
  request->begin = request->own_begin = event->record->sector;
  request->end = request->own_end = event->record->sector + event->sectors;
}

int queue_row(struct pairing *pairing, const struct event *event, uint32_t *out) {
  struct row *row = rows_append(&pairing->rows);
  uint32_t index = row ? requests_new(&pairing->requests) : NO_REQUEST;
  if (index == NO_REQUEST)
    return -ENOMEM;
  fill_row(pairing, event, row);
  fill_request(event, pairing->rows.tail - 1, requests_at(&pairing->requests, index));
  row->request = index;
  *out = index;
  if (row->operation != OPERATION_FLUSH)
    return requests_link(&pairing->requests, index);
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
  struct request_key key = event_key(event, REQUEST_QUEUED);
  uint32_t index = requests_find(&pairing->requests, &key);
  if (index == NO_REQUEST)
    return false;
  struct open_request *request = requests_at(&pairing->requests, index);
  bool is_it = request->is_remainder && request->pid == event->record->pid;
  request->is_remainder = request->is_remainder && !is_it;
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
  if (event->record->cgroup != 0 &&
      cgroups_find(&pairing->cgroups, event->record->cgroup, &row->cgroup))
    return -ENOMEM;
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

/* Adds a request for the sectors from `middle` on. */
static int divide(struct pairing *pairing, uint32_t index, uint64_t middle) {
  uint32_t rest_index = requests_new(&pairing->requests);
  if (rest_index == NO_REQUEST)
    return -ENOMEM;
  requests_unlink(&pairing->requests, index);
  struct open_request *request = requests_at(&pairing->requests, index);
  struct open_request *rest = requests_at(&pairing->requests, rest_index);
  struct row *row = rows_at(&pairing->rows, request->row);
  *rest = (struct open_request){.row = request->row,
                                .begin = middle,
                                .end = request->end,
                                .own_begin = middle,
                                .own_end = request->end,
                                .flushed_ns = NO_TIME,
                                .device = request->device,
                                .pid = request->pid,
                                .first_child = NO_REQUEST,
                                .last_child = NO_REQUEST,
                                .next_child = NO_REQUEST,
                                .next_of_row = row->request,
                                .previous_of_row = NO_REQUEST,
                                .kind = request->kind,
                                .state = REQUEST_QUEUED,
                                .is_remainder = true};
  requests_at(&pairing->requests, row->request)->previous_of_row = rest_index;
  row->request = rest_index;
  row->open_requests++;
  row->split_count++;
  request->end = request->own_end = middle;
  request->is_remainder = false;
  return requests_link(&pairing->requests, index) || requests_link(&pairing->requests, rest_index)
             ? -ENOMEM
             : 0;
}

int split_event(struct pairing *pairing, const struct event *event) {
  const struct record *record = event->record;
  struct request_key key = event_key(event, REQUEST_QUEUED);
  key.sectors = ANY_LENGTH;
  uint32_t index = record->payload_size < 8 ? NO_REQUEST : requests_find(&pairing->requests, &key);
  uint64_t middle = record_be64(record->payload);
  if (index != NO_REQUEST) {
    const struct open_request *request = requests_at(&pairing->requests, index);
    /* The kernel splits before it merges, and never what is done already. */
    bool is_alone = request->row != NO_ROW && request->first_child == NO_REQUEST;
    if (is_alone && middle > request->begin && middle < request->end)
      return divide(pairing, index, middle);
  }
  pairing->counts.unmatched[UNMATCHED_SPLIT]++;
  return 0;
}
