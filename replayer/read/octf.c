#include "read/octf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/names.h"
#include "read/octf_window.h"

#define NEAR_DEVICES 256u /* a power of two */
#define LARGEST_SECTOR (UINT64_C(1) << 53)
#define EMPTY_FLUSH 4
#define METADATA_CLASS 1

/* Devices that occurred lately: nearly every event names one of them. */
struct near_device {
  uint64_t id;
  int32_t place; /* index + 1, 0 is none */
};

struct tk_octf {
  struct octf_merge merge;
  struct octf_window window;
  struct names ids; /* of the devices, as bytes: their index */
  struct tk_octf_device *devices;
  size_t device_count, device_capacity;
  struct near_device near[NEAR_DEVICES];
  struct tk_octf_stats stats;
  struct octf_problem problem;
  bool is_at_end;
};

int32_t tk_octf_detect(const uint8_t *head, int64_t size) {
  return size > 0 && octf_detect(head, (size_t)size);
}

int tk_octf_open(const int32_t *fds, int64_t count, const uint8_t *head, int64_t size,
                 struct tk_octf **out) {
  if (count <= 0 || size < 0 || size > OCTF_MOST_MESSAGE)
    return -EINVAL;
  struct tk_octf *reader = calloc(1, sizeof(*reader));
  if (!reader)
    return -ENOMEM;
  int merge_status = octf_merge_open(&reader->merge, fds, (size_t)count, head, (size_t)size);
  if (merge_status || octf_window_open(&reader->window)) {
    tk_octf_close(reader);
    return -ENOMEM;
  }
  *out = reader;
  return 0;
}

void tk_octf_close(struct tk_octf *reader) {
  if (!reader)
    return;
  octf_merge_close(&reader->merge);
  octf_window_close(&reader->window);
  names_clear(&reader->ids);
  free(reader->devices);
  free(reader);
}

/* Reports what is wrong with the event at hand. Returns -EBADMSG, or -ENOMEM for that kind. */
static int fail(struct tk_octf *reader, const struct octf_source *source,
                enum octf_problem_kind kind, uint64_t value) {
  reader->problem = (struct octf_problem){.kind = (int32_t)kind,
                                          .file = source->index,
                                          .offset = (int64_t)source->offset,
                                          .value = value};
  return kind == OCTF_PROBLEM_MEMORY ? -ENOMEM : -EBADMSG;
}

static int add_device(struct tk_octf *reader, uint64_t id) {
  if (reader->device_count == reader->device_capacity) {
    size_t capacity = reader->device_capacity ? 2 * reader->device_capacity : 16;
    struct tk_octf_device *grown = realloc(reader->devices, capacity * sizeof(*grown));
    if (!grown)
      return -ENOMEM;
    reader->devices = grown;
    reader->device_capacity = capacity;
  }
  reader->devices[reader->device_count++] = (struct tk_octf_device){.id = id};
  return 0;
}

/* Writes the number as 16 letters, so that the table of names can hold it. */
static void spell(uint64_t id, char letters[16]) {
  for (unsigned i = 0; i < 16; i++)
    letters[i] = (char)('a' + (id >> (4 * i) & 15));
}

/* Returns a device's index, or -EBADMSG, -ENOMEM. */
static int32_t device_index(struct tk_octf *reader, const struct octf_source *source, uint64_t id) {
  struct near_device *near = &reader->near[(id ^ id >> 20) & (NEAR_DEVICES - 1)];
  if (near->place && near->id == id)
    return near->place - 1;
  char letters[16];
  spell(id, letters);
  int32_t index = names_add(&reader->ids, letters, sizeof(letters));
  if (index < 0)
    return fail(reader, source, OCTF_PROBLEM_MEMORY, 0);
  if (index >= TK_OCTF_MOST_DEVICES)
    return fail(reader, source, OCTF_PROBLEM_DEVICES, (uint64_t)index + 1);
  if ((size_t)index == reader->device_count && add_device(reader, id))
    return fail(reader, source, OCTF_PROBLEM_MEMORY, 0);
  *near = (struct near_device){.id = id, .place = index + 1};
  return index;
}

static int take_request(struct tk_octf *reader, const struct octf_source *source) {
  const struct octf_event *event = &source->event;
  const uint64_t *values = event->values;
  int32_t device = device_index(reader, source, values[IO_DEVICE]);
  if (device < 0)
    return device;
  struct octf_row row = {.time_ns = event->time_ns,
                         .sector = values[IO_LBA],
                         .id = values[IO_ID],
                         .sectors = (uint32_t)values[IO_LENGTH],
                         .device = device,
                         .operation = values[IO_OPERATION] <= 3 ? (uint8_t)values[IO_OPERATION] : 0,
                         .is_flush = values[IO_FLUSH] != 0,
                         .is_fua = values[IO_FUA] != 0,
                         .is_meta = values[IO_METADATA] != 0 || values[IO_CLASS] == METADATA_CLASS,
                         .is_readahead = values[IO_READAHEAD] != 0};

  /* A place beyond 2^53 sectors is no place, and would overflow sums of bytes. */
  if (row.sectors && row.sector > LARGEST_SECTOR)
    return fail(reader, source, OCTF_PROBLEM_PLACE, row.sector);
  if (octf_window_add(&reader->window, &row))
    return fail(reader, source, OCTF_PROBLEM_MEMORY, 0);
  reader->stats.requests++;
  return 0;
}

static int take_completion(struct tk_octf *reader, const struct octf_source *source) {
  const uint64_t *values = source->event.values;
  int32_t device = device_index(reader, source, values[DONE_DEVICE]);
  if (device < 0)
    return device;
  struct octf_row like = {.sector = values[IO_LBA],
                          .id = values[DONE_REF_ID],
                          .sectors = (uint32_t)values[IO_LENGTH],
                          .device = device};

  /* A completion before its request is of another one with the same number: it counts as
   * unmatched. */
  reader->stats.completions++;
  struct octf_row *row = octf_window_complete(&reader->window, &like);
  if (!row || source->event.time_ns < row->time_ns) {
    reader->stats.unmatched_completions++;
    if (!row)
      return 0;
  }
  /* What was done is what counts, as for the framework's own parser: with kernels before 4.10 a
   * discard has its place only then. */
  if (like.sector && like.sectors && like.sector <= LARGEST_SECTOR &&
      source->event.time_ns >= row->time_ns) {
    row->sector = like.sector;
    row->sectors = like.sectors;
  }
  row->end_ns = source->event.time_ns;
  row->is_error = values[DONE_ERROR] != 0;
  return 0;
}

static int take_device(struct tk_octf *reader, const struct octf_source *source) {
  const struct octf_event *event = &source->event;
  int32_t index = device_index(reader, source, event->values[DEVICE_ID]);
  if (index < 0)
    return index;
  struct tk_octf_device *device = &reader->devices[index];
  size_t size = (size_t)(event->name.end - event->name.at);
  if (size > TK_OCTF_NAME_BYTES)
    size = TK_OCTF_NAME_BYTES;
  if (size > 0)
    memcpy(device->name, event->name.at, size);
  device->name[size] = '\0';
  device->sectors = event->values[DEVICE_SECTORS];
  return 0;
}

static int take_event(struct tk_octf *reader, const struct octf_source *source) {
  /* The numbers are those of the tracer, so that the reader of the counts can see what is
   * missing. */
  struct tk_octf_stats *stats = &reader->stats;
  uint64_t sid = source->event.sid;
  stats->messages++;
  if (sid > 0 && sid <= INT64_MAX) {
    if (stats->numbered++ == 0 || (int64_t)sid < stats->first_sid)
      stats->first_sid = (int64_t)sid;
    if ((int64_t)sid > stats->last_sid)
      stats->last_sid = (int64_t)sid;
  }
  switch (source->event.kind) {
  case OCTF_IO:
    return take_request(reader, source);
  case OCTF_COMPLETION:
    return take_completion(reader, source);
  case OCTF_DEVICE:
    return take_device(reader, source);
  case OCTF_UNKNOWN:
    stats->unknown++;
    return 0;
  default:
    stats->passed++;
    return 0;
  }
}

/* Reads on until the oldest request may leave, or the trace ends. Returns 0 or -errno. */
static int settle_oldest(struct tk_octf *reader) {
  struct octf_window *window = &reader->window;
  while (!reader->is_at_end && !octf_window_is_full(window)) {
    const struct octf_row *oldest = octf_window_oldest(window);
    if (oldest && oldest->is_complete)
      return 0;
    struct octf_source *source;
    if (octf_merge_peek(&reader->merge, &source, &reader->problem))
      return -EBADMSG;
    if (!source) {
      reader->is_at_end = true;
      return 0;
    }
    int status = take_event(reader, source);
    if (status || (status = octf_merge_pop(&reader->merge, &reader->problem)) != 0)
      return status;
  }
  return 0;
}

static void write_row(const struct octf_row *row, int64_t *const *columns, int64_t place) {
  bool has_data = row->sectors > 0, is_done = row->is_complete && row->end_ns >= row->time_ns;
  columns[TK_OCTF_TIME][place] = (int64_t)row->time_ns;
  columns[TK_OCTF_SECTOR][place] = has_data ? (int64_t)row->sector : 0;
  columns[TK_OCTF_SECTORS][place] = row->sectors;
  columns[TK_OCTF_RESPONSE][place] = is_done ? (int64_t)(row->end_ns - row->time_ns) : -1;
  columns[TK_OCTF_DEVICE][place] = row->device;
  columns[TK_OCTF_OPERATION][place] =
      row->is_flush && !has_data ? EMPTY_FLUSH : (int64_t)row->operation;
  columns[TK_OCTF_PREFLUSH][place] = row->is_flush && has_data;
  columns[TK_OCTF_FUA][place] = row->is_fua;
  columns[TK_OCTF_META][place] = row->is_meta;
  columns[TK_OCTF_READAHEAD][place] = row->is_readahead;
  columns[TK_OCTF_ERROR][place] = row->is_error;
}

int64_t tk_octf_read(struct tk_octf *reader, int64_t *const *columns, int64_t capacity) {
  struct octf_window *window = &reader->window;
  int64_t rows = 0;
  while (rows < capacity) {
    int status = settle_oldest(reader);
    if (status)
      return status;
    if (window->head == window->tail)
      break;
    bool is_full = octf_window_is_full(window);
    const struct octf_row *row = octf_window_take(window);
    reader->stats.unmatched_requests += !row->is_complete;
    reader->stats.evicted += !row->is_complete && is_full && !reader->is_at_end;
    write_row(row, columns, rows++);
  }
  return rows;
}

void tk_octf_stats(const struct tk_octf *reader, struct tk_octf_stats *out) {
  *out = reader->stats;
  for (size_t i = 0; i < reader->merge.count; i++)
    out->bytes += (int64_t)reader->merge.sources[i].offset;
}

void tk_octf_problem(const struct tk_octf *reader, struct octf_problem *out) {
  *out = reader->problem;
}

void tk_octf_cut(const struct tk_octf *reader, int64_t file, struct octf_problem *out) {
  *out = (struct octf_problem){0};
  if (file >= 0 && (size_t)file < reader->merge.count)
    *out = reader->merge.sources[file].cut;
}

int64_t tk_octf_device(const struct tk_octf *reader, int64_t index, struct tk_octf_device *out) {
  if (index >= 0 && (size_t)index < reader->device_count)
    *out = reader->devices[index];
  return (int64_t)reader->device_count;
}
