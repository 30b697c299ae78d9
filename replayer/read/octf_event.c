#include "read/octf_event.h"

#include <string.h>

#define CHECKED_MESSAGES 100
#define HEADER 1
enum { HEADER_SID = 1, HEADER_TIME = 2 };

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

int octf_event_read(const uint8_t *message, size_t size, struct octf_event *out) {
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
    if (octf_event_read(wire.at, (size_t)bytes, &event) || !event.has_header ||
        event.time_ns == 0 || event.kind == OCTF_UNKNOWN)
      return false;
    wire.at += bytes;
  }
  return true;
}
