#include "play/emulated_device.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/heap.h"
#include "model/flush_cost.h"
#include "model/spindle.h"
#include "play/engine.h"
#include "play/number.h"

#define SECOND_NS 1000000000U
#define TIME_MAX_NS (1000U * (uint64_t)SECOND_NS)
#define RATE_MAX_BYTES_S (UINT64_C(1) << 50)
#define VALUE_CHARS 24U
#define SECTORS_MAX (UINT64_C(1) << 50)
#define RECENT 64U                          /* requests whose mix counts */
#define PS 1000                             /* in a nanosecond */
#define GOLDEN UINT64_C(0x9E3779B97F4A7C15) /* the step of SplitMix64 */

static bool is_free_before(const uint64_t *a_ns, const uint64_t *b_ns) { return *a_ns < *b_ns; }

HEAP_DEFINE(lanes, uint64_t, 2, is_free_before)

struct device {
  struct device_spec spec;
  uint64_t next_bytes; /* where the request before ended */
  uint64_t written_ns; /* when the last of the writes so far is done */
  bool is_written;     /* something to flush is on it */
  struct tk_spindle spindle;
  struct latency_table *cells; /* NULL: there is none */
  uint64_t recent;             /* a bit for each of the last reads and writes, 1: it wrote */
  uint32_t recent_count;       /* how many these are, up to RECENT */
  uint64_t lane_ns[];          /* a heap by time: when each lane is free */
};

enum need { ALWAYS, NEVER, FOR_DISK };

struct key {
  const char *name;
  size_t place; /* in struct device_spec */
  uint64_t minimum;
  uint64_t maximum;
  enum need need;
  bool may_be_negative; /* down to -maximum */
};

static const struct key keys[] = {
    {"read_setup_ns", offsetof(struct device_spec, read_setup_ns), 0, TIME_MAX_NS, ALWAYS, false},
    {"write_setup_ns", offsetof(struct device_spec, write_setup_ns), 0, TIME_MAX_NS, ALWAYS, false},
    {"sequential_setup_ns", offsetof(struct device_spec, sequential_setup_ns), 0, TIME_MAX_NS,
     NEVER, false},
    {"read_bytes_s", offsetof(struct device_spec, read_bytes_s), 1, RATE_MAX_BYTES_S, ALWAYS,
     false},
    {"write_bytes_s", offsetof(struct device_spec, write_bytes_s), 1, RATE_MAX_BYTES_S, ALWAYS,
     false},
    {"flush_ns", offsetof(struct device_spec, flush_ns), 0, TIME_MAX_NS, ALWAYS, false},
    {"empty_flush_ns", offsetof(struct device_spec, empty_flush_ns), 0, TIME_MAX_NS, NEVER, false},
    {"fua_ns", offsetof(struct device_spec, fua_ns), 0, TIME_MAX_NS, ALWAYS, false},
    {"lanes", offsetof(struct device_spec, lanes), 1, DEVICE_LANES_MAX, NEVER, false},
    {"seek_track_ns", offsetof(struct device_spec, seek_track_ns), 0, TIME_MAX_NS, FOR_DISK, false},
    {"seek_root_ns", offsetof(struct device_spec, seek_root_ns), 0, TIME_MAX_NS, FOR_DISK, false},
    {"seek_linear_ns", offsetof(struct device_spec, seek_linear_ns), 0, TIME_MAX_NS, FOR_DISK,
     true},
    {"seek_unknown_ns", offsetof(struct device_spec, seek_unknown_ns), 0, TIME_MAX_NS, FOR_DISK,
     false},
    {"write_settle_ns", offsetof(struct device_spec, write_settle_ns), 0, TIME_MAX_NS, FOR_DISK,
     false},
    {"half_turn_ns", offsetof(struct device_spec, half_turn_ns), 1, TIME_MAX_NS, FOR_DISK, false},
    {"track_sectors", offsetof(struct device_spec, track_sectors), 0, SECTORS_MAX, FOR_DISK, false},
    {"capacity_sectors", offsetof(struct device_spec, capacity_sectors), 1, SECTORS_MAX, FOR_DISK,
     false},
    {"seed", offsetof(struct device_spec, seed), 0, UINT64_MAX, NEVER, false},
};

#define KEYS (sizeof keys / sizeof *keys)

/* Returns the key's number, KEYS when there is none of this name. */
static size_t find(const char *name, size_t length) {
  for (size_t i = 0; i < KEYS; i++)
    if (strlen(keys[i].name) == length && memcmp(keys[i].name, name, length) == 0)
      return i;
  return KEYS;
}

/* Returns the distribution of this name, NULL when there is none. */
static struct quantiles *find_quantiles(const char *name, size_t length, struct device_spec *spec) {
  static const char *const names[] = {"read_setup_quantiles", "write_setup_quantiles"};
  struct quantiles *places[] = {&spec->read_setup, &spec->write_setup};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
      return places[i];
  return NULL;
}

/* Checks a table and keeps its text. */
static int take_cells(const char *text, size_t length, struct device_spec *spec) {
  struct latency_table *table;
  if (spec->cells != NULL || latency_table_parse(text, length, TIME_MAX_NS, &table) != 0)
    return -EINVAL;
  latency_table_free(table);
  spec->cells = text;
  spec->cells_length = length;
  return 0;
}

/* Reads one "KEY=VALUE" of `length` characters. */
static int take(const char *text, size_t length, struct device_spec *spec, bool *seen) {
  const char *equals = memchr(text, '=', length);
  struct quantiles *quantiles =
      equals == NULL ? NULL : find_quantiles(text, (size_t)(equals - text), spec);
  if (quantiles != NULL)
    return quantiles->count > 0 ? -EINVAL
                                : quantiles_parse(equals + 1, length - (size_t)(equals + 1 - text),
                                                  TIME_MAX_NS, quantiles);
  static const char cells[] = "cells=";
  if (strncmp(text, cells, sizeof cells - 1) == 0)
    return take_cells(equals + 1, length - (sizeof cells - 1), spec);
  size_t key = equals == NULL ? KEYS : find(text, (size_t)(equals - text));
  if (key == KEYS || seen[key])
    return -EINVAL;
  size_t chars = length - (size_t)(equals + 1 - text);
  char value[VALUE_CHARS];
  if (chars >= sizeof value)
    return -EINVAL;
  memcpy(value, equals + 1, chars);
  value[chars] = '\0';
  uint64_t number;
  bool is_negative = keys[key].may_be_negative && value[0] == '-';
  if (number_parse(value + is_negative, keys[key].minimum, keys[key].maximum, &number) != 0)
    return -EINVAL;
  if (is_negative)
    number = -number; /* as the two's complement that the field holds */
  memcpy((char *)spec + keys[key].place, &number, sizeof number);
  seen[key] = true;
  return 0;
}

static struct tk_spindle spindle_of(const struct device_spec *spec) {
  return (struct tk_spindle){.track_ps = (double)spec->seek_track_ns * PS,
                             .root_ps = (double)spec->seek_root_ns * PS,
                             .linear_ps = (double)spec->seek_linear_ns * PS,
                             .unknown_ps = (int64_t)spec->seek_unknown_ns * PS,
                             .half_turn_ps = (int64_t)spec->half_turn_ns * PS,
                             .settle_ps = {0, (int64_t)spec->write_settle_ns * PS},
                             .track_sectors = (int64_t)spec->track_sectors,
                             .capacity_sectors = (int64_t)spec->capacity_sectors};
}

/* Whether all keys are there that belong together, and can be those of a device. */
static bool is_whole(const struct device_spec *spec, const bool *seen) {
  bool is_disk = false;
  for (size_t i = 0; i < KEYS; i++)
    is_disk = is_disk || (keys[i].need == FOR_DISK && seen[i]);
  for (size_t i = 0; i < KEYS; i++)
    if (!seen[i] && (keys[i].need == ALWAYS || (is_disk && keys[i].need == FOR_DISK)))
      return false;
  struct tk_spindle spindle = spindle_of(spec);
  bool is_drawn = spec->read_setup.count > 0 || spec->write_setup.count > 0 || spec->cells;
  return !is_disk || (spec->lanes == 1 && !is_drawn && spindle_is_valid(&spindle));
}

int device_spec_parse(const char *text, struct device_spec *spec, const char **fault) {
  bool seen[KEYS] = {false};
  *spec = (struct device_spec){
      .sequential_setup_ns = UINT64_MAX, .empty_flush_ns = UINT64_MAX, .lanes = 1};
  for (*fault = text; **fault != '\0';) {
    size_t length = strcspn(*fault, ",");
    if (take(*fault, length, spec, seen) != 0)
      return -EINVAL;
    *fault += length;
    *fault += **fault == ',';
  }
  if (spec->empty_flush_ns == UINT64_MAX)
    spec->empty_flush_ns = spec->flush_ns;
  if (!is_whole(spec, seen))
    *fault = "a key is missing";
  else if (spec->empty_flush_ns > spec->flush_ns)
    *fault = "empty_flush_ns is more than flush_ns";
  else
    return 0;
  return -EINVAL;
}

struct device *device_new(const struct device_spec *spec) {
  struct device *device = calloc(1, sizeof *device + spec->lanes * sizeof *device->lane_ns);
  if (device == NULL)
    return NULL;
  device->spec = *spec;
  device->spindle = spindle_of(spec);
  device->next_bytes = UINT64_MAX; /* the first request continues nothing */
  if (spec->cells != NULL &&
      latency_table_parse(spec->cells, spec->cells_length, TIME_MAX_NS, &device->cells) != 0) {
    free(device);
    return NULL;
  }
  return device;
}

static uint64_t transfer_ns(uint64_t bytes, uint64_t bytes_s) {
  /* In two parts: bytes x 10^9 would not fit for zeroing a whole disk. */
  return bytes / bytes_s * SECOND_NS + bytes % bytes_s * SECOND_NS / bytes_s;
}

/* Returns the output of SplitMix64 that has the request's id for its number, of the target's
 * sequence: the same in each run, whatever its other requests and its order are. */
static uint64_t random_of(uint64_t seed, const struct request *request) {
  uint64_t sequence = hash_mix(seed + (request->target + UINT64_C(1)) * GOLDEN);
  return hash_mix(sequence + (request->request_id + 1) * GOLDEN);
}

/* Returns what a transfer costs before its first byte. */
static uint64_t start_ns(const struct device *device, const struct request *request, bool is_read) {
  const struct device_spec *spec = &device->spec;
  bool has_sequential = spec->sequential_setup_ns != UINT64_MAX;
  if (spec->half_turn_ns > 0) {
    bool is_first = device->next_bytes == UINT64_MAX;
    int64_t head = is_first ? -1 : (int64_t)(device->next_bytes / SECTOR_BYTES);
    int64_t sector = (int64_t)(request->offset_bytes / SECTOR_BYTES);
    int64_t position_ps = spindle_position_ps(&device->spindle, head, sector, !is_read);
    return (uint64_t)position_ps / PS + (has_sequential ? spec->sequential_setup_ns : 0);
  }
  if (request->offset_bytes == device->next_bytes && has_sequential)
    return spec->sequential_setup_ns;
  const struct quantiles *quantiles = is_read ? &spec->read_setup : &spec->write_setup;
  if (quantiles->count > 0)
    return quantiles_draw_ns(quantiles, random_of(spec->seed, request));
  return is_read ? spec->read_setup_ns : spec->write_setup_ns;
}

static bool writes_data(const struct request *request) {
  return request->operation == BLOCK_WRITE || request->operation == BLOCK_ZONE_APPEND;
}

/* Returns the cell that a request draws from; NULL for one that goes on, where that has a setup of
 * its own, and without a table. */
static const struct latency_cell *cell_of(struct device *device, const struct request *request,
                                          uint64_t start_ns) {
  bool goes_on = request->offset_bytes == device->next_bytes;
  if (device->cells == NULL || request->length_bytes == 0 ||
      (goes_on && device->spec.sequential_setup_ns != UINT64_MAX))
    return NULL;
  uint64_t depth = 1;
  for (uint64_t lane = 0; lane < device->spec.lanes; lane++)
    depth += device->lane_ns[lane] > start_ns;
  double writes = 0;
  for (uint64_t bits = device->recent; bits != 0; bits &= bits - 1)
    writes++;
  struct latency_place place = {.is_read = request->operation == BLOCK_READ,
                                .length_bytes = request->length_bytes,
                                .depth = depth,
                                .write_ratio = writes / device->recent_count};
  return latency_table_find(device->cells, &place);
}

/* Keeps whether a request wrote, for the mix of those that follow. */
static void remember(struct device *device, bool wrote) {
  device->recent = device->recent << 1 | wrote;
  device->recent_count += device->recent_count < RECENT;
}

/* Returns a time of the cell, with what the request is longer or shorter than it at the rate. */
static uint64_t drawn_ns(const struct device *device, const struct latency_cell *cell,
                         const struct request *request, uint64_t rate) {
  uint64_t time_ns = quantiles_draw_ns(&cell->times, random_of(device->spec.seed, request));
  uint64_t length = cell->place.length_bytes;
  if (request->length_bytes >= length)
    return time_ns + transfer_ns(request->length_bytes - length, rate);
  uint64_t less_ns = transfer_ns(length - request->length_bytes, rate);
  return time_ns > less_ns ? time_ns - less_ns : 1;
}

/* Flushes the device; returns what that takes. */
static uint64_t flush_ns(struct device *device) {
  const uint64_t ns[TK_FLUSHES] = {device->spec.empty_flush_ns, device->spec.flush_ns};
  return ns[flush_device(&device->is_written)];
}

/* Returns how long a lane is busy with the request, which begins at begin_ns. */
static uint64_t service_ns(struct device *device, const struct request *request,
                           uint64_t begin_ns) {
  const struct device_spec *spec = &device->spec;
  bool is_read = request->operation == BLOCK_READ;
  if (request->operation == BLOCK_FLUSH)
    return flush_ns(device);
  /* What moves no data costs nothing, as in the placement model. */
  if (!is_read && !writes_data(request))
    return 0;
  uint64_t rate = is_read ? spec->read_bytes_s : spec->write_bytes_s;
  remember(device, !is_read);
  const struct latency_cell *cell = cell_of(device, request, begin_ns);
  uint64_t moved_ns =
      cell != NULL ? drawn_ns(device, cell, request, rate)
                   : start_ns(device, request, is_read) + transfer_ns(request->length_bytes, rate);
  device->next_bytes = request->offset_bytes + request->length_bytes;
  bool is_forced = (request->flags & BLOCK_FUA) != 0;
  moved_ns += is_forced ? spec->fua_ns : 0;
  moved_ns += (request->flags & BLOCK_PREFLUSH) != 0 ? flush_ns(device) : 0;
  device->is_written |= flush_is_due_after(!is_read, is_forced);
  return moved_ns;
}

static uint64_t max_ns(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Of the lanes that are free at `start_ns` the one that was free last: the others have been free
 * for what did not wait. */
static size_t free_last(const struct device *device, uint64_t start_ns) {
  size_t found = 0;
  for (size_t lane = 1; lane < device->spec.lanes; lane++)
    if (device->lane_ns[lane] <= start_ns && device->lane_ns[lane] > device->lane_ns[found])
      found = lane;
  return found;
}

/* A flush makes durable what was written before it, so it begins when the writes on all lanes have
 * ended. What comes after it does not wait, but for a lane. */
uint64_t device_serve(struct device *device, const struct request *request, uint64_t now_ns) {
  bool flushes = request->operation == BLOCK_FLUSH || (request->flags & BLOCK_PREFLUSH) != 0;
  uint64_t start_ns = max_ns(device->lane_ns[0], now_ns);
  size_t lane = 0;
  if (flushes) {
    start_ns = max_ns(start_ns, device->written_ns);
    lane = free_last(device, start_ns);
  }
  uint64_t done_ns = start_ns + service_ns(device, request, start_ns);
  lanes_sink(device->lane_ns, device->spec.lanes, lane, done_ns);
  if (writes_data(request))
    device->written_ns = max_ns(device->written_ns, done_ns);
  return done_ns;
}

void device_free(struct device *device) {
  if (device == NULL)
    return;
  latency_table_free(device->cells);
  free(device);
}
