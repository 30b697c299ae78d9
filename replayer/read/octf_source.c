#include "read/octf_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)1 << 17)
#define MOST_LENGTH_BYTES 10
#define CHECKED_MESSAGES 100
#define HEADER 1
enum { HEADER_SID = 1, HEADER_TIME = 2 };

_Static_assert(BUFFER_BYTES > OCTF_MOST_MESSAGE + MOST_LENGTH_BYTES, "a message must fit");

static int read_header(struct wire message, struct octf_event *out) {
  struct wire_field field;
  int status;
  out->has_header = true;
  while ((status = wire_next(&message, &field)) > 0) {
    if (field.type != WIRE_VARINT)
      continue;
    if (field.number == HEADER_SID)
      out->sid = field.value;
    else if (field.number == HEADER_TIME)
      out->time_ns = field.value;
  }
  return status;
}

/* Of two events in a message the last counts, as for every reader of a oneof. */
static int read_body(struct wire message, enum octf_kind kind, struct octf_event *out) {
  struct wire_field field;
  int status;
  if (out->kind != OCTF_UNKNOWN) {
    memset(out->values, 0, sizeof(out->values));
    out->name = (struct wire){0};
  }
  out->kind = kind;
  while ((status = wire_next(&message, &field)) > 0) {
    if (field.type == WIRE_VARINT && field.number < OCTF_FIELDS)
      out->values[field.number] = field.value;
    else if (field.type == WIRE_BYTES && field.number == DEVICE_NAME)
      out->name = field.bytes;
  }
  return status;
}

/* Reads one whole message. Returns 0, or -EBADMSG for anything else; `out` is then undefined. */
static int read_event(const uint8_t *message, size_t size, struct octf_event *out) {
  struct wire wire = {.at = message, .end = message + size};
  struct wire_field field;
  int status;
  *out = (struct octf_event){0};
  while ((status = wire_next(&wire, &field)) > 0) {
    if (field.type != WIRE_BYTES)
      continue;
    if (field.number == HEADER)
      status = read_header(field.bytes, out);
    else if (field.number >= OCTF_IO && field.number <= OCTF_FILE_EVENT)
      status = read_body(field.bytes, (enum octf_kind)field.number, out);
    if (status < 0)
      return status;
  }
  return status;
}

bool octf_detect(const uint8_t *head, size_t size) {
  struct wire wire = {.at = head, .end = head + size};
  for (unsigned i = 0; i < CHECKED_MESSAGES; i++) {
    struct octf_event event;
    uint64_t bytes;
    if (!wire_varint(&wire, &bytes) || bytes > (uint64_t)(wire.end - wire.at))
      return i > 0;
    if (read_event(wire.at, (size_t)bytes, &event) || !event.has_header || event.time_ns == 0 ||
        event.kind == OCTF_UNKNOWN)
      return false;
    wire.at += bytes;
  }
  return true;
}

static int fail(const struct octf_source *source, enum octf_problem_kind kind, uint64_t value,
                struct octf_problem *problem) {
  *problem = (struct octf_problem){.kind = (int32_t)kind,
                                   .file = source->index,
                                   .offset = (int64_t)source->offset,
                                   .value = value};
  return -EBADMSG;
}

/* Reads on until `wanted` bytes are at hand or the file ends. Returns 0 or -EBADMSG. */
static int read_on(struct octf_source *source, size_t wanted, struct octf_problem *problem) {
  while (source->end - source->begin < wanted && !source->is_at_end) {
    if (source->begin > 0 && BUFFER_BYTES - source->begin < wanted) {
      memmove(source->bytes, source->bytes + source->begin, source->end - source->begin);
      source->end -= source->begin;
      source->begin = 0;
    }
    ssize_t got = read(source->fd, source->bytes + source->end, BUFFER_BYTES - source->end);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return fail(source, OCTF_PROBLEM_READ, (uint64_t)errno, problem);
    source->is_at_end = got == 0;
    source->end += (size_t)got;
  }
  return 0;
}

/* The same, where nearly always they are at hand. */
static inline int fill(struct octf_source *source, size_t wanted, struct octf_problem *problem) {
  return source->end - source->begin < wanted ? read_on(source, wanted, problem) : 0;
}

/* A file that ends within a message was cut short: its messages up to there count. */
static int end_cut(struct octf_source *source) {
  fail(source, OCTF_PROBLEM_CUT, source->end - source->begin, &source->cut);
  source->begin = source->end;
  return 0;
}

/* Decodes the next event. Returns 1, 0 at the file's end, or -EBADMSG. */
static int next_event(struct octf_source *source, struct octf_problem *problem) {
  source->begin += source->message_size;
  source->offset += source->message_size;
  source->message_size = 0;
  if (fill(source, MOST_LENGTH_BYTES, problem))
    return -EBADMSG;
  struct wire wire = {.at = source->bytes + source->begin, .end = source->bytes + source->end};
  if (wire.at == wire.end)
    return 0;
  uint64_t bytes;
  if (!wire_varint(&wire, &bytes)) {
    if (source->end - source->begin < MOST_LENGTH_BYTES)
      return end_cut(source);
    return fail(source, OCTF_PROBLEM_LENGTH, UINT64_MAX, problem);
  }
  if (bytes == 0 || bytes > OCTF_MOST_MESSAGE)
    return fail(source, OCTF_PROBLEM_LENGTH, bytes, problem);
  size_t prefix = (size_t)(wire.at - (source->bytes + source->begin));
  size_t size = prefix + (size_t)bytes;
  if (fill(source, size, problem))
    return -EBADMSG;
  if (source->end - source->begin < size)
    return end_cut(source);
  const uint8_t *message = source->bytes + source->begin + prefix;
  if (read_event(message, (size_t)bytes, &source->event))
    return fail(source, OCTF_PROBLEM_MESSAGE, bytes, problem);
  if (!source->event.has_header)
    return fail(source, OCTF_PROBLEM_HEADER, bytes, problem);
  if (source->event.time_ns > INT64_MAX)
    return fail(source, OCTF_PROBLEM_TIME, source->event.time_ns, problem);
  source->message_size = size;
  return 1;
}

int octf_merge_open(struct octf_merge *merge, const int32_t *fds, size_t count, const uint8_t *head,
                    size_t size) {
  *merge = (struct octf_merge){0};
  merge->sources = calloc(count, sizeof(*merge->sources));
  merge->heap = calloc(count, sizeof(*merge->heap));
  if (!merge->sources || !merge->heap)
    return -ENOMEM;
  for (merge->count = 0; merge->count < count; merge->count++) {
    struct octf_source *source = &merge->sources[merge->count];
    source->fd = fds[merge->count];
    source->index = (int32_t)merge->count;
    source->bytes = malloc(BUFFER_BYTES);
    if (!source->bytes)
      return -ENOMEM;
  }
  memcpy(merge->sources[0].bytes, head, size);
  merge->sources[0].end = size;
  return 0;
}

void octf_merge_close(struct octf_merge *merge) {
  for (size_t i = 0; i < merge->count; i++)
    free(merge->sources[i].bytes);
  free(merge->sources);
  free(merge->heap);
  *merge = (struct octf_merge){0};
}

/* Events of one time stand in the order of their numbers, which all cpus share. */
static struct merge_head head_of(const struct octf_source *source) {
  return (struct merge_head){.time_ns = source->event.time_ns,
                             .number = source->event.sid,
                             .input = (size_t)source->index};
}

static int start(struct octf_merge *merge, struct octf_problem *problem) {
  merge->is_started = true;
  for (size_t i = 0; i < merge->count; i++) {
    int status = next_event(&merge->sources[i], problem);
    if (status < 0)
      return status;
    if (status > 0)
      merge->heap[merge->live++] = head_of(&merge->sources[i]);
  }
  merge_heap_order(merge->heap, merge->live);
  return 0;
}

int octf_merge_peek(struct octf_merge *merge, struct octf_source **out,
                    struct octf_problem *problem) {
  if (!merge->is_started && start(merge, problem))
    return -EBADMSG;
  *out = merge->live ? &merge->sources[merge->heap[0].input] : NULL;
  return 0;
}

int octf_merge_pop(struct octf_merge *merge, struct octf_problem *problem) {
  struct octf_source *source = &merge->sources[merge->heap[0].input];
  int status = next_event(source, problem);
  if (status < 0)
    return status;
  merge->heap[0] = status ? head_of(source) : merge->heap[--merge->live];
  merge_heap_settle(merge->heap, merge->live);
  return 0;
}
