#include "read/source.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (256u << 10) /* more than the largest record, 64 + 65535 bytes */
#define HELD_RECORDS 2048u        /* much more than are kept for the next turn; few for the cache */
#define LOOK_MS 100            /* how soon a thread that waits for a pipe sees that it is to end */
#define HEAD_BYTES (64u << 10) /* of a text that its format was known by */

int source_open(struct source *source, int fd, int32_t index, bool keeps_whole) {
  *source = (struct source){.fd = fd, .index = index, .keeps_whole = keeps_whole};
  source->bytes = malloc(BUFFER_BYTES + 1); /* and an ending of a text's last line */
  struct record *records = malloc(HELD_RECORDS * sizeof(*records));
  source->own = (struct source_block){.records = records, .capacity = HELD_RECORDS, .status = 1};
  return source->bytes && records ? 0 : -ENOMEM;
}

void source_close(struct source *source) {
  source->is_closing = true;
  source_ahead_close(source->ahead);
  free(source->bytes);
  free(source->own.records);
  free(source->sequence.streams);
  text_close(&source->text);
  *source = (struct source){.fd = -1};
}

int source_set_text(struct source *source, enum text_format format, const char *head, size_t size) {
  if (size > HEAD_BYTES)
    return -EINVAL;
  source->text.format = format;
  memcpy(source->bytes, head, size);
  source->end = size;
  return 0;
}

static int fail(struct source *source, struct problem *problem, enum problem_kind kind,
                uint64_t value) {
  *problem = (struct problem){.kind = (int32_t)kind,
                              .file = source->index,
                              .offset = (int64_t)source->offset,
                              .value = value};
  return -EBADMSG;
}

/* A pipe may stay silent or be slow; returns false when nobody wants its bytes any more. */
static bool wait_for_bytes(struct source *source) {
  struct pollfd input = {.fd = source->fd, .events = POLLIN};
  do
    if (source->is_closing)
      return false;
  while (poll(&input, 1, LOOK_MS) == 0);
  return true;
}

/* Moves the rest to the front of the buffer and reads behind it. */
static int read_more(struct source *source, struct problem *problem) {
  memmove(source->bytes, source->bytes + source->begin, source->end - source->begin);
  source->end -= source->begin;
  source->begin = 0;
  if (!wait_for_bytes(source))
    return fail(source, problem, PROBLEM_READ, ECANCELED);
  ssize_t got;
  do
    got = read(source->fd, source->bytes + source->end, BUFFER_BYTES - source->end);
  while (got < 0 && errno == EINTR);
  if (got < 0)
    return fail(source, problem, PROBLEM_READ, (uint64_t)errno);
  source->end += (size_t)got;
  source->is_at_end = got == 0;
  return 0;
}

/* Says why the bytes at the cursor are no record. */
static int reject(struct source *source, struct problem *problem, enum record_status status) {
  uint32_t magic = 0;
  memcpy(&magic, source->bytes + source->begin, sizeof(magic));
  if (source->is_swapped)
    magic = __builtin_bswap32(magic);
  if (status == RECORD_BAD_VERSION)
    return fail(source, problem, PROBLEM_BAD_VERSION, magic & 0xff);
  return fail(source, problem, source->is_started ? PROBLEM_BAD_MAGIC : PROBLEM_NOT_A_TRACE, magic);
}

/* The input ended within a record that needs `size` bytes. */
static int reject_cut(struct source *source, struct problem *problem, enum problem_kind kind,
                      size_t size) {
  size_t there = source->end - source->begin;
  /* A file of three bytes has been cut, too, but nothing shows that it was a trace. */
  if (!source->is_started && there < sizeof(uint32_t))
    return fail(source, problem, PROBLEM_NOT_A_TRACE, 0);
  int status = fail(source, problem, kind, there);
  problem->other = (int64_t)size;
  return status;
}

static int reject_backwards(struct source *source, struct problem *problem,
                            const struct record *record) {
  int status = fail(source, problem, PROBLEM_BACKWARDS, source->latest_ns - record->time_ns);
  problem->offset = (int64_t)record->offset;
  problem->other = (int64_t)source->latest_offset;
  return status;
}

static int reject_versions(struct source *source, struct problem *problem,
                           const struct record *record) {
  int status = fail(source, problem, PROBLEM_VERSIONS, record->version);
  problem->offset = (int64_t)record->offset;
  problem->other = source->version;
  return status;
}

/* Puts the record just decoded at its place in time. */
static int sort_in(struct source *source, struct problem *problem) {
  struct record *held = source->block->records;
  struct record record = held[source->block->count];
  bool is_beyond = source->records - source->latest_ordinal > SOURCE_REORDER_RECORDS ||
                   source->latest_ns - record.time_ns > SOURCE_REORDER_NS;
  if (is_beyond || record.time_ns < source->passed_ns)
    return reject_backwards(source, problem, &record);
  size_t place = source->block->count;
  for (; place > 0 && held[place - 1].time_ns > record.time_ns; place--)
    held[place] = held[place - 1];
  held[place] = record;
  source->reordered++;
  return 0;
}

static bool is_of(const struct sequence_stream *stream, const struct record *record) {
  return stream->device == record->device && stream->cpu == record->cpu;
}

/* Makes `current` the record's stream. Per-cpu files have one stream a device, so that the search
 * is short; a merged stream has one for each cpu. */
static int select_stream(struct sequence *sequence, const struct record *record) {
  for (size_t i = 0; i < sequence->count; i++)
    if (is_of(&sequence->streams[i], record)) {
      sequence->current = i;
      return 0;
    }
  if (sequence->count == sequence->capacity) {
    size_t capacity = sequence->capacity ? sequence->capacity * 2 : 8;
    void *streams = realloc(sequence->streams, capacity * sizeof(*sequence->streams));
    if (!streams)
      return -ENOMEM;
    sequence->streams = streams;
    sequence->capacity = capacity;
  }
  sequence->current = sequence->count++;
  sequence->streams[sequence->current] = (struct sequence_stream){
      .device = record->device, .cpu = record->cpu, .last = record->sequence - 1};
  return 0;
}

/* Takes the number of a record into account. Returns 0 or -ENOMEM. */
static int check_sequence(struct sequence *sequence, const struct record *record) {
  if (record->sequence == 0)
    return 0;
  if (sequence->count == 0 || !is_of(&sequence->streams[sequence->current], record))
    if (select_stream(sequence, record))
      return -ENOMEM;
  struct sequence_stream *stream = &sequence->streams[sequence->current];
  /* The difference of 32-bit numbers stays right when they wrap. */
  int32_t step = (int32_t)(record->sequence - stream->last);
  sequence->numbered++;
  if (step > 1) {
    sequence->gaps++;
    sequence->lost += (uint64_t)step - 1;
  } else if (step <= 0) {
    sequence->repeated++;
    return 0;
  }
  stream->last = record->sequence;
  return 0;
}

/* A message says the cgroup of the queue events behind it, of the same device and cpu. */
static int take_cgroup(struct sequence *sequence, struct record *record) {
  bool is_message = record->category & CATEGORY_NOTIFY;
  if (is_message && record->cgroup != 0) {
    if (select_stream(sequence, record))
      return -ENOMEM;
    sequence->streams[sequence->current].cgroup = record->cgroup == NO_CGROUP ? 0 : record->cgroup;
  } else if (!is_message && record->cgroup == 0 && record->sequence != 0) {
    record->cgroup = sequence->streams[sequence->current].cgroup;
  }
  return 0;
}

/* A notify happens where it stands: `blkparse -d` makes the times of events relative, not its. */
static void place_notify(const struct source *source, struct record *record) {
  record->stamp_ns = record->time_ns;
  record->time_ns = source->latest_ns;
}

static struct record *end_of(struct source_block *block) { return block->records + block->count; }

/* Takes in the record behind those of the block. */
static int accept(struct source *source, struct problem *problem) {
  struct record *record = end_of(source->block);
  /* No kernel writes both: the rest of the file is of another capture, or damaged. */
  if (source->is_started && record->version != source->version)
    return reject_versions(source, problem, record);
  if (!source->is_started)
    source->version = record->version;
  source->is_started = true;
  if (record->category & CATEGORY_NOTIFY)
    place_notify(source, record);
  else if (check_sequence(&source->sequence, record))
    return fail(source, problem, PROBLEM_MEMORY, 0);
  if (take_cgroup(&source->sequence, record))
    return fail(source, problem, PROBLEM_MEMORY, 0);
  if (record->time_ns < source->latest_ns) {
    int status = sort_in(source, problem);
    if (status)
      return status;
  } else {
    source->latest_ns = record->time_ns;
    source->latest_ordinal = source->records;
    source->latest_offset = record->offset;
  }
  source->records++;
  source->block->count++;
  return 0;
}

/* Decodes one record behind those of the block. Returns 1, 0 at the end, -EBADMSG. */
static int decode_one(struct source *source, struct problem *problem) {
  for (;;) {
    size_t available = source->end - source->begin;
    size_t size = 0;
    if (!source->is_started && available >= sizeof(uint32_t))
      source->is_swapped = record_is_foreign(source->bytes + source->begin);
    struct record *out = end_of(source->block);
    enum record_status status =
        record_decode(source->bytes + source->begin, available, source->is_swapped, out, &size);
    if (status == RECORD_OK) {
      out->offset = source->offset;
      source->begin += size;
      source->offset += size;
      return 1;
    }
    bool is_payload = status == RECORD_SHORT_PAYLOAD;
    if (status != RECORD_SHORT_HEADER && !is_payload)
      return reject(source, problem, status);
    if (source->is_at_end && available == 0)
      return 0;
    if (source->is_at_end)
      return reject_cut(source, problem, is_payload ? PROBLEM_CUT_PAYLOAD : PROBLEM_CUT_HEADER,
                        size);
    if (read_more(source, problem))
      return -EBADMSG;
  }
}

/* Finds the end of the line at the cursor, reading on until it is there. Returns 1, 0 at the end of
 * the input, -EBADMSG. */
static int find_line(struct source *source, struct problem *problem, uint8_t **end) {
  for (;;) {
    size_t available = source->end - source->begin;
    *end = memchr(source->bytes + source->begin, '\n', available);
    if (*end)
      return 1;
    if (source->is_at_end && available == 0)
      return 0;
    if (source->is_at_end) {
      source->bytes[source->end++] = '\n'; /* the last line has no ending */
    } else if (available == BUFFER_BYTES) {
      text_too_long(&source->text, (const char *)source->bytes, available);
      source->text.is_too_long = true;
      source->offset += available;
      source->begin = source->end = 0;
    } else if (read_more(source, problem)) {
      return -EBADMSG;
    }
  }
}

/* Reads lines up to the next event, behind those of the block. Returns 1, 0 at the end, -EBADMSG.
 */
static int decode_text(struct source *source, struct problem *problem) {
  struct text *text = &source->text;
  uint8_t *end;
  int status;
  while ((status = find_line(source, problem, &end)) > 0) {
    const uint8_t *line = source->bytes + source->begin;
    size_t size = (size_t)(end + 1 - line);
    source->begin += size;
    source->offset += size;
    bool is_rest = text->is_too_long;
    text->is_too_long = false;
    if (is_rest)
      continue;
    struct record *out = end_of(source->block);
    status = (int)text_line(text, (const char *)line, (const char *)end, out);
    if (text->has_no_memory)
      return fail(source, problem, PROBLEM_MEMORY, 0);
    if (status != TEXT_EVENT)
      continue;
    out->offset = (uint64_t)text->lines;
    return 1;
  }
  return status;
}

/* Fills the block or reaches the end. */
static int decode_many(struct source *source, struct problem *problem) {
  bool is_text = source->text.format != TEXT_NONE;
  while (source->block->count < source->block->capacity) {
    int status = is_text ? decode_text(source, problem) : decode_one(source, problem);
    if (status > 0)
      status = accept(source, problem) ? -EBADMSG : 1;
    if (status <= 0)
      return status;
  }
  return 1;
}

void source_fill(struct source *source, const struct source_block *from, struct source_block *to) {
  if (from->ready > 0)
    source->passed_ns = from->records[from->ready - 1].time_ns;
  size_t kept = from->count - from->ready;
  memmove(to->records, from->records + from->ready, kept * sizeof(*to->records));
  to->count = kept;
  to->problem.kind = PROBLEM_NONE;
  source->block = to;
  int status = source->cut.kind == PROBLEM_NONE ? decode_many(source, &to->problem) : 0;

  /* With keeps_whole damage of the data ends the input here; a failed read or no memory is an
   * error. */
  bool is_of_the_data = status < 0 && to->problem.kind < PROBLEM_READ;
  if (is_of_the_data && source->keeps_whole && source->is_started) {
    source->cut = to->problem;
    status = 0;
  }
  to->status = status;
  /* The last records stay until it is sure that none goes before them. */
  to->ready = status > 0 ? to->count - SOURCE_REORDER_RECORDS : to->count;
}

/* Fills the own block, and starts a thread behind it where lines go on: they take longer to read
 * than to pair. Names of drivers' disks are asked for meanwhile, so that their events have none. */
static const struct source_block *fill_own(struct source *source) {
  source_fill(source, &source->own, &source->own);
  bool is_text = source->text.format != TEXT_NONE && source->text.format <= TEXT_KERNEL;
  if (is_text && source->own.status > 0)
    source->ahead = source_ahead_start(source, &source->own);
  return &source->own;
}

int source_refill(struct source *source, struct problem *problem) {
  source->next = source->ready = 0;
  if (source->is_over)
    return 0;
  const struct source_block *block =
      source->ahead ? source_ahead_take(source->ahead) : fill_own(source);
  source->is_over = block->status <= 0;
  if (block->status < 0) {
    *problem = block->problem;
    return block->status;
  }
  source->held = block->records;
  source->ready = block->ready;
  return source->ready > 0;
}
