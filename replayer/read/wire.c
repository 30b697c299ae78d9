#include "read/wire.h"

#include <errno.h>

#define MOST_VARINT_BYTES 10
#define MOST_FIELD_NUMBER ((UINT64_C(1) << 29) - 1)

bool wire_long_varint(struct wire *wire, uint64_t *out) {
  const uint8_t *at = wire->at;
  uint64_t value = 0;
  for (unsigned i = 0; i < MOST_VARINT_BYTES && at < wire->end; i++) {
    uint8_t byte = *at++;
    value |= (uint64_t)(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      wire->at = at;
      *out = value;
      return true;
    }
  }
  return false;
}

static bool take(struct wire *wire, uint64_t bytes, struct wire *out) {
  if (bytes > (uint64_t)(wire->end - wire->at))
    return false;
  *out = (struct wire){.at = wire->at, .end = wire->at + bytes};
  wire->at += bytes;
  return true;
}

int wire_other_field(struct wire *wire, struct wire_field *out) {
  uint64_t tag, bytes = 0;
  if (!wire_varint(wire, &tag) || tag >> 3 == 0 || tag >> 3 > MOST_FIELD_NUMBER)
    return -EBADMSG;
  out->number = (uint32_t)(tag >> 3);

  /* The type says how long the value is, so that unknown fields can be passed over. */
  switch (tag & 7) {
  case WIRE_VARINT:
    out->type = WIRE_VARINT;
    return wire_varint(wire, &out->value) ? 1 : -EBADMSG;
  case WIRE_FIXED64:
    out->type = WIRE_FIXED64;
    return take(wire, 8, &out->bytes) ? 1 : -EBADMSG;
  case WIRE_BYTES:
    out->type = WIRE_BYTES;
    return wire_varint(wire, &bytes) && take(wire, bytes, &out->bytes) ? 1 : -EBADMSG;
  case WIRE_FIXED32:
    out->type = WIRE_FIXED32;
    return take(wire, 4, &out->bytes) ? 1 : -EBADMSG;
  default: /* groups, which no proto3 message has */
    return -EBADMSG;
  }
}
