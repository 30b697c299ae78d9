/* The wire format of protocol buffers: the fields of one message, one after the other. Nothing is
 * copied, and nothing outside of the message is read. */
#ifndef TRACEKIT_DECODE_WIRE_H
#define TRACEKIT_DECODE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

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

bool wire_long_varint(struct wire *wire, uint64_t *out);

/* Takes a number of 7 bits a byte, lowest first, of at most 10 bytes; bits beyond 64 are dropped,
 * as the format's own readers do. Returns false, and takes nothing, when it does not end there. */
static inline bool wire_varint(struct wire *wire, uint64_t *out) {
  if (wire->at < wire->end && *wire->at < 0x80) {
    *out = *wire->at++;
    return true;
  }
  return wire_long_varint(wire, out);
}

/* Takes the next field; the values of fixed ones are passed over. Returns 1, 0 at the end of the
 * message, or -EBADMSG: no field, or one that reaches beyond the message. */
int wire_next(struct wire *wire, struct wire_field *out);

#endif
