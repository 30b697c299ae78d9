#include "read/record.h"

#include <endian.h>
#include <string.h>

#define MAGIC 0x656174u   /* the upper 24 bits; the lower 8 are the version */
#define CGROUP_MARK 0x100 /* in the action: the payload begins with a cgroup id */
#define CGROUP_BYTES 8
#define CGROUP_DIGITS 20
#define HEADER_BYTES_V7 48
#define HEADER_BYTES_V8 64 /* twelve of padding included */

static uint16_t load16(const uint8_t *data, bool is_swapped) {
  uint16_t value;
  memcpy(&value, data, sizeof(value));
  return is_swapped ? __builtin_bswap16(value) : value;
}

static uint32_t load32(const uint8_t *data, bool is_swapped) {
  uint32_t value;
  memcpy(&value, data, sizeof(value));
  return is_swapped ? __builtin_bswap32(value) : value;
}

static uint64_t load64(const uint8_t *data, bool is_swapped) {
  uint64_t value;
  memcpy(&value, data, sizeof(value));
  return is_swapped ? __builtin_bswap64(value) : value;
}

uint32_t record_be32(const uint8_t *data) {
  uint32_t value;
  memcpy(&value, data, sizeof(value));
  return be32toh(value);
}

uint64_t record_be64(const uint8_t *data) {
  uint64_t value;
  memcpy(&value, data, sizeof(value));
  return be64toh(value);
}

uint32_t record_u32(const struct record *record, size_t at) {
  return load32(record->payload + at, record->is_swapped);
}

bool record_is_foreign(const uint8_t *data) { return load32(data, true) >> 8 == MAGIC; }

/* Fields of version 7 from byte 24 on; returns the action as recorded. */
static uint64_t decode_v7(const uint8_t *data, bool is_swapped, struct record *out) {
  out->pid = load32(data + 32, is_swapped);
  out->device = load32(data + 36, is_swapped);
  out->cpu = load32(data + 40, is_swapped);
  out->error = load16(data + 44, is_swapped);
  out->payload_size = load16(data + 46, is_swapped);
  return load32(data + 28, is_swapped);
}

static uint64_t decode_v8(const uint8_t *data, bool is_swapped, struct record *out) {
  out->pid = load32(data + 28, is_swapped);
  out->device = load32(data + 40, is_swapped);
  out->cpu = load32(data + 44, is_swapped);
  out->error = load16(data + 48, is_swapped);
  out->payload_size = load16(data + 50, is_swapped);
  return load64(data + 32, is_swapped);
}

/* A message of tracekit's captures: "cgroup " and the id in decimal. */
static uint64_t cgroup_said(const uint8_t *text, size_t size) {
  static const char word[] = "cgroup ";
  uint64_t id = 0;
  size_t at = sizeof(word) - 1;
  if (size <= at || size > at + CGROUP_DIGITS || memcmp(text, word, at) != 0)
    return 0;
  for (; at < size; at++) {
    uint8_t digit = (uint8_t)(text[at] - '0');
    if (digit > 9 || __builtin_mul_overflow(id, 10, &id) || __builtin_add_overflow(id, digit, &id))
      return 0;
  }
  return id == 0 ? NO_CGROUP : id;
}

static void take_cgroup(const uint8_t *payload, bool has_cgroup, struct record *out) {
  if (has_cgroup && out->payload_size >= CGROUP_BYTES)
    out->cgroup = load64(payload, out->is_swapped);
  else if (!has_cgroup && out->category & CATEGORY_NOTIFY && out->action == NOTIFY_MESSAGE)
    out->cgroup = cgroup_said(payload, out->payload_size);
}

static void copy_payload(const uint8_t *payload, bool has_cgroup, struct record *out) {
  size_t skip = has_cgroup && out->payload_size >= CGROUP_BYTES ? CGROUP_BYTES : 0;
  size_t size = out->payload_size - skip;
  if (size > PAYLOAD_BYTES)
    size = PAYLOAD_BYTES;
  memset(out->payload, 0, PAYLOAD_BYTES);
  memcpy(out->payload, payload + skip, size);
  out->payload_size = (uint16_t)size;
}

static inline enum record_status decode(const uint8_t *data, size_t available, bool is_swapped,
                                        struct record *out, size_t *size) {
  uint32_t magic = load32(data, is_swapped);
  uint32_t version = magic & 0xff;
  if (magic >> 8 != MAGIC)
    return RECORD_BAD_MAGIC;
  if (version != 7 && version != 8)
    return RECORD_BAD_VERSION;
  size_t header = version == 7 ? HEADER_BYTES_V7 : HEADER_BYTES_V8;
  *size = header;
  if (available < header)
    return RECORD_SHORT_HEADER;
  uint64_t action =
      version == 7 ? decode_v7(data, is_swapped, out) : decode_v8(data, is_swapped, out);
  *size = header + out->payload_size;
  if (available < *size)
    return RECORD_SHORT_PAYLOAD;

  out->version = (uint8_t)version;
  out->is_swapped = is_swapped;
  out->has_name = false;
  out->has_no_payload = false;
  out->sequence = load32(data + 4, is_swapped);
  out->time_ns = load64(data + 8, is_swapped);
  out->sector = load64(data + 16, is_swapped);
  out->bytes = load32(data + 24, is_swapped);
  out->action = (uint16_t)(action & 0xffff & ~(uint64_t)CGROUP_MARK);
  out->category = action & ~0xffffULL;
  out->cgroup = 0;
  if (out->payload_size) {
    take_cgroup(data + header, action & CGROUP_MARK, out);
    copy_payload(data + header, action & CGROUP_MARK, out);
  }
  return RECORD_OK;
}

enum record_status record_decode(const uint8_t *data, size_t available, bool is_swapped,
                                 struct record *out, size_t *size) {
  *size = sizeof(uint32_t);
  if (available < sizeof(uint32_t))
    return RECORD_SHORT_HEADER;
  /* Two copies of the same code, so that the usual byte order pays nothing for the other. */
  return is_swapped ? decode(data, available, true, out, size)
                    : decode(data, available, false, out, size);
}
