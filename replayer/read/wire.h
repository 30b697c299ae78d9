/* The wire format of protocol buffers: the fields of one message, one after the other. Nothing is
 * copied, and nothing outside of the message is read. What most fields are is done in line, without
 * the address of anything, so that it stays in registers. */
#ifndef TRACEKIT_READ_WIRE_H
#define TRACEKIT_READ_WIRE_H

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* Bytes that are still to be read. */
struct wire {
  const uint8_t *at, *end;
};

struct wire_field {
  uint64_t value;    /* of a WIRE_VARINT */
  struct wire bytes; /* of WIRE_BYTES */
  uint32_t number;   /* from 1 */
  enum wire_type type;
};

/* What the functions below do not do themselves. */
bool wire_long_varint(struct wire *wire, uint64_t *out);
int wire_other_field(struct wire *wire, struct wire_field *out);

/* The number of 7 bits of each byte up to the first below 0x80, of which `ends` has the high bit:
 * joined to 14 of each two, 28 of each four and 56. */
static inline uint64_t wire_join(uint64_t eight, uint64_t ends) {
  eight &= (ends ^ (ends - 1)) & 0x7f7f7f7f7f7f7f7fu;
  eight = (eight & 0x007f007f007f007fu) | (eight & 0x7f007f007f007f00u) >> 1;
  eight = (eight & 0x00003fff00003fffu) | (eight & 0x3fff00003fff0000u) >> 2;
  return (eight & 0x000000000fffffffu) | (eight & 0x0fffffff00000000u) >> 4;
}

/* Takes a number of 7 bits a byte, lowest first, of at most 10 bytes; bits beyond 64 are dropped,
 * as the format's own readers do. Returns false, and takes nothing, when it does not end there. */
static inline bool wire_varint(struct wire *wire, uint64_t *out) {
  if (wire->at < wire->end && *wire->at < 0x80) {
    *out = *wire->at++;
    return true;
  }
  if (wire->end - wire->at >= 8) {
    uint64_t eight;
    memcpy(&eight, wire->at, sizeof(eight));
    eight = le64toh(eight);
    uint64_t ends = ~eight & 0x8080808080808080u;
    if (ends) {
      wire->at += __builtin_ctzll(ends) / 8 + 1;
      *out = wire_join(eight, ends);
      return true;
    }
  }
  struct wire rest = *wire;
  uint64_t value = 0;
  bool is_good = wire_long_varint(&rest, &value);
  *wire = rest;
  *out = value;
  return is_good;
}

/* Takes the next field; the values of fixed ones are passed over. Returns 1, 0 at the end of the
 * message, or -EBADMSG: no field, or one that reaches beyond the message. */
static inline int wire_next(struct wire *wire, struct wire_field *out) {
  if (wire->at == wire->end)
    return 0;
  uint8_t tag = *wire->at;
  if (tag < 0x80 && tag >= 8 && (tag & 7) == WIRE_VARINT) {
    wire->at++;
    out->number = tag >> 3;
    out->type = WIRE_VARINT;
    return wire_varint(wire, &out->value) ? 1 : -EBADMSG;
  }
  if (tag < 0x80 && tag >= 8 && (tag & 7) == WIRE_BYTES && wire->end - wire->at >= 2 &&
      wire->at[1] < 0x80 && wire->end - wire->at - 2 >= wire->at[1]) {
    out->number = tag >> 3;
    out->type = WIRE_BYTES;
    out->bytes = (struct wire){.at = wire->at + 2, .end = wire->at + 2 + wire->at[1]};
    wire->at = out->bytes.end;
    return 1;
  }
  struct wire rest = *wire;
  struct wire_field other = {0};
  int status = wire_other_field(&rest, &other);
  *wire = rest;
  *out = other;
  return status;
}

#endif
