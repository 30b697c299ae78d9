#include "read/pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "read/event.h"

int pair_open(struct pairing *pairing) {
  *pairing = (struct pairing){0};
  pairing->remaps = calloc(REMAPS_PENDING, sizeof(*pairing->remaps));
  int rows_status = rows_open(&pairing->rows);
  int requests_status = requests_open(&pairing->requests);
  return pairing->remaps && !rows_status && !requests_status ? 0 : -ENOMEM;
}

void pair_close(struct pairing *pairing) {
  rows_close(&pairing->rows);
  requests_close(&pairing->requests);
  free(pairing->devices);
  free(pairing->remaps);
  idmap_clear(&pairing->device_index);
  idmap_clear(&pairing->device_alias);
  idmap_clear(&pairing->process_of_pid);
  idmap_clear(&pairing->partition_index);
  names_clear(&pairing->device_names);
  names_clear(&pairing->process_names);
  names_clear(&pairing->partition_names);
  cgroups_clear(&pairing->cgroups);
}

int pair_name_process(struct pairing *pairing, uint32_t pid, const char *name, size_t length) {
  int32_t index = names_add(&pairing->process_names, name, length);
  return index < 0 ? index : idmap_set(&pairing->process_of_pid, pid, (uint32_t)index);
}

int pair_name_device(struct pairing *pairing, uint32_t number, const char *name, size_t length) {
  int32_t index = names_add(&pairing->device_names, name, length);
  return index < 0 ? index : idmap_set(&pairing->device_alias, number, (uint32_t)index);
}

/* Gives the name of a device: the layout's, or "major,minor". */
static int32_t device_name(struct pairing *pairing, uint32_t number) {
  const uint32_t *alias = idmap_get(&pairing->device_alias, number);
  if (alias)
    return (int32_t)*alias;
  char text[32];
  int length = snprintf(text, sizeof(text), "%u,%u", number >> 20, number & 0xfffff);
  return names_add(&pairing->device_names, text, (size_t)length);
}

static int add_device(struct pairing *pairing, uint32_t number) {
  if (pairing->device_count == pairing->device_capacity) {
    uint32_t capacity = pairing->device_capacity ? pairing->device_capacity * 2 : 8;
    struct device *devices = realloc(pairing->devices, capacity * sizeof(*devices));
    if (!devices)
      return -ENOMEM;
    pairing->devices = devices;
    pairing->device_capacity = capacity;
  }
  int32_t name = device_name(pairing, number);
  if (name < 0 || idmap_set(&pairing->device_index, number, pairing->device_count))
    return -ENOMEM;
  pairing->devices[pairing->device_count++] = (struct device){
      .number = number, .name = name, .first_flush = NO_REQUEST, .last_flush = NO_REQUEST};
  return 0;
}

static int find_device(struct pairing *pairing, uint32_t number, uint32_t *out) {
  if (pairing->latest_device < pairing->device_count &&
      pairing->devices[pairing->latest_device].number == number) {
    *out = pairing->latest_device;
    return 0;
  }
  const uint32_t *known = idmap_get(&pairing->device_index, number);
  if (!known) {
    if (add_device(pairing, number))
      return -ENOMEM;
    known = idmap_get(&pairing->device_index, number);
  }
  *out = pairing->latest_device = *known;
  return 0;
}

static int take_notify(struct pairing *pairing, const struct record *record) {
  struct pair_counts *counts = &pairing->counts;
  if (record->action < NOTIFY_END)
    counts->notifies[record->action]++;
  if (record->action == NOTIFY_PROCESS && record->payload_size > 0 && record->payload[0]) {
    const char *name = (const char *)record->payload;
    return pair_name_process(pairing, record->pid, name, strnlen(name, record->payload_size));
  }
  if (record->action == NOTIFY_TIMESTAMP && record->payload_size >= 8 && !counts->has_wall) {
    counts->has_wall = true;
    counts->wall_at_ns = record->stamp_ns;
    counts->wall_ns = (int64_t)record_u32(record, 0) * 1000000000 + record_u32(record, 4);
  }
  return 0;
}

/* Takes the name of the record's process, which it had when the record was made. */
static int take_name(struct pairing *pairing, const struct record *record) {
  struct recent_name *recent = &pairing->recent_names[record->pid & (RECENT_NAMES - 1)];
  if (recent->length == record->payload_size && recent->pid == record->pid &&
      memcmp(recent->name, record->payload, PAYLOAD_BYTES) == 0)
    return 0;
  recent->pid = record->pid;
  recent->length = record->payload_size;
  memcpy(recent->name, record->payload, PAYLOAD_BYTES);
  return pair_name_process(pairing, record->pid, (const char *)record->payload,
                           record->payload_size);
}

/* Events of one direction and sort of operation belong together. */
static uint8_t kind_of(const struct record *record) {
  return (uint8_t)((record->category & CATEGORY_WRITE ? 1 : 0) |
                   (record->category & CATEGORY_DISCARD ? 2 : 0) |
                   (record->category & CATEGORY_ZONE ? 4 : 0));
}

static int dispatch(struct pairing *pairing, const struct event *event) {
  /* Only these actions change a request. */
  switch (event->record->action) {
  case ACTION_QUEUE:
    return queue_event(pairing, event);
  case ACTION_BACK_MERGE:
  case ACTION_FRONT_MERGE:
    return merge_event(pairing, event);
  case ACTION_GET_REQUEST:
    return getrq_event(pairing, event);
  case ACTION_REQUEUE:
    return requeue_event(pairing, event);
  case ACTION_ISSUE:
    return issue_event(pairing, event);
  case ACTION_COMPLETE:
    return complete_event(pairing, event);
  case ACTION_INSERT:
    return insert_event(pairing, event);
  case ACTION_SPLIT:
    return split_event(pairing, event);
  case ACTION_REMAP:
    return remap_event(pairing, event);
  default:
    /* Plugging, sleeping, bouncing and driver data are counted; no request changes by them. */
    return 0;
  }
}

int pair_record(struct pairing *pairing, const struct record *record) {
  struct pair_counts *counts = &pairing->counts;
  if (record->category & CATEGORY_NOTIFY)
    return take_notify(pairing, record);
  if (!counts->has_base) {
    counts->has_base = true;
    counts->base_ns = record->time_ns;
  }
  counts->last_ns = record->time_ns;
  counts->cpus[(record->cpu / 64) % (sizeof(counts->cpus) / 8)] |= 1ULL << record->cpu % 64;
  if (record->action == 0 || record->action >= ACTION_END) {
    counts->unknown++;
    return 0;
  }

  /* Everything is counted by its action; commands and events without their payload go no
   * further. */
  counts->actions[record->action]++;
  if (record->has_name && take_name(pairing, record))
    return -ENOMEM;
  if (record->category & CATEGORY_PASSTHROUGH) {
    counts->passthrough++;
    return 0;
  }
  if (record->has_no_payload)
    return 0;
  struct event event = {.record = record,
                        .time_ns = (int64_t)(record->time_ns - counts->base_ns),
                        .sectors = ((uint64_t)record->bytes + 511) >> SECTOR_SHIFT,
                        .kind = kind_of(record)};
  if (find_device(pairing, record->device, &event.device))
    return -ENOMEM;
  return dispatch(pairing, &event);
}

/* Ends a merged request whose merge target is given up. */
static void abandon_child(struct pairing *pairing, uint32_t index) {
  uint64_t request_id = requests_at(&pairing->requests, index)->row;
  if (request_id != NO_ROW) {
    struct row *row = rows_at(&pairing->rows, request_id);
    end_request_of_row(pairing, request_id, index);
    row->complete_ns = row->transfer_ns = NO_TIME;
    if (row->is_done && row->queue_ns != NO_TIME)
      pairing->counts.unmatched[UNMATCHED_QUEUE]++;
  }
  requests_free(&pairing->requests, index);
}

/* Ends a request that waits for an event that will not come any more. */
static void abandon_request(struct pairing *pairing, uint32_t index) {
  struct open_request *request = requests_at(&pairing->requests, index);
  const struct row *row = rows_at(&pairing->rows, request->row);
  bool is_kept_by_others = request->state == REQUEST_MERGED || row->operation == OPERATION_FLUSH;
  uint32_t child = request->first_child;
  end_request_of_row(pairing, request->row, index);
  if (is_kept_by_others)
    return;
  for (uint32_t next; child != NO_REQUEST; child = next) {
    next = requests_at(&pairing->requests, child)->next_child;
    abandon_child(pairing, child);
  }
  requests_unlink(&pairing->requests, index);
  requests_free(&pairing->requests, index);
}

/* Ends a row that is not done. Returns whether it had not completed either. */
static bool abandon_row(struct pairing *pairing, uint64_t request_id) {
  struct row *row = rows_at(&pairing->rows, request_id);
  bool is_complete = row->open_requests == 1 &&
                     requests_at(&pairing->requests, row->request)->state == REQUEST_DRAINING;
  if (!is_complete)
    row->complete_ns = row->transfer_ns = NO_TIME;
  if (!is_complete && row->queue_ns != NO_TIME)
    pairing->counts.unmatched[UNMATCHED_QUEUE]++;
  while (!row->is_done)
    abandon_request(pairing, row->request);
  return !is_complete;
}

void pair_evict(struct pairing *pairing) {
  pairing->counts.evicted += abandon_row(pairing, pairing->rows.ready);
  rows_advance(&pairing->rows);
}

void pair_end(struct pairing *pairing) {
  for (uint64_t id = pairing->rows.ready; id < pairing->rows.tail; id++)
    if (!rows_at(&pairing->rows, id)->is_done)
      (void)abandon_row(pairing, id);
  pairing->rows.ready = pairing->rows.tail;
  for (uint32_t i = 0; i < REMAPS_PENDING; i++)
    pairing->counts.unmatched[UNMATCHED_REMAP] += pairing->remaps[i].is_pending;
}
