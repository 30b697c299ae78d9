/* One record of a blktrace binary capture, version 7 or 8, in either byte order.
 * Layout: Linux include/uapi/linux/blktrace_api.h. */
#ifndef TRACEKIT_READ_RECORD_H
#define TRACEKIT_READ_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECTOR_SHIFT 9
#define NO_CGROUP UINT64_MAX /* said of queue events that have none */
#define PAYLOAD_BYTES 16 /* what any record that we use carries: a comm, a remap, a new sector */

/* Low 16 bits of a record's action, without the cgroup mark. */
enum trace_action {
  ACTION_QUEUE = 1,
  ACTION_BACK_MERGE,
  ACTION_FRONT_MERGE,
  ACTION_GET_REQUEST,
  ACTION_SLEEP,
  ACTION_REQUEUE,
  ACTION_ISSUE,
  ACTION_COMPLETE,
  ACTION_PLUG,
  ACTION_UNPLUG,
  ACTION_UNPLUG_TIMER,
  ACTION_INSERT,
  ACTION_SPLIT,
  ACTION_BOUNCE,
  ACTION_REMAP,
  ACTION_ABORT,
  ACTION_DRIVER_DATA,
  ACTION_ZONE_PLUG,
  ACTION_ZONE_UNPLUG,
  ACTION_END,
};

/* The same field of a notify record. */
enum trace_notify { NOTIFY_PROCESS, NOTIFY_TIMESTAMP, NOTIFY_MESSAGE, NOTIFY_END };

/* Category bits, at their place in the action. The zone bits exist from version 8 on. */
#define CATEGORY_READ (1ULL << 16)
#define CATEGORY_WRITE (1ULL << 17)
#define CATEGORY_FLUSH (1ULL << 18)
#define CATEGORY_SYNC (1ULL << 19)
#define CATEGORY_PASSTHROUGH (1ULL << 25)
#define CATEGORY_NOTIFY (1ULL << 26)
#define CATEGORY_AHEAD (1ULL << 27)
#define CATEGORY_META (1ULL << 28)
#define CATEGORY_DISCARD (1ULL << 29)
#define CATEGORY_FUA (1ULL << 31)
#define CATEGORY_ZONE (0x3fULL << 32)
#define CATEGORY_ZONE_APPEND (1ULL << 32)
#define CATEGORY_ZONE_RESET (1ULL << 33)
#define CATEGORY_ZONE_RESET_ALL (1ULL << 34)
#define CATEGORY_ZONE_FINISH (1ULL << 35)
#define CATEGORY_ZONE_OPEN (1ULL << 36)
#define CATEGORY_ZONE_CLOSE (1ULL << 37)

struct record {
  uint64_t time_ns;  /* clock of the traced machine, no fixed epoch */
  uint64_t sector;   /* 512 bytes, from the start of the device */
  uint64_t category; /* CATEGORY_ bits */
  uint64_t offset;   /* of the record in its file, bytes; of a line of text, its number from 1 */
  uint64_t stamp_ns; /* of a notify: its own time, where time_ns is its place among the events */
  uint64_t cgroup;   /* id of the kernel's file; of a message that of the queue events behind it; 0:
                      * none, or not known */
  uint8_t payload[PAYLOAD_BYTES];
  uint32_t bytes;         /* transferred, discarded or merged */
  uint32_t pid;           /* of the process that ran when it was recorded */
  uint32_t device;        /* major << 20 | minor */
  uint32_t cpu;           /* that recorded it */
  uint32_t sequence;      /* per device and cpu from 1; 0 when the source has none */
  uint16_t action;        /* enum trace_action, or enum trace_notify when the category says so */
  uint16_t error;         /* of a completion, an errno as 16 bits */
  uint16_t payload_size;  /* bytes of `payload` that the record really carried */
  uint8_t version;        /* 7 or 8; 0 of a line of text */
  uint8_t is_swapped;     /* the byte order is not this machine's */
  uint8_t has_name;       /* the payload is the name of the process `pid`, as texts have it */
  uint8_t has_no_payload; /* the text has no place for it: the event is counted only */
};

enum record_status {
  RECORD_OK,
  RECORD_SHORT_HEADER,  /* the header goes on beyond the bytes given */
  RECORD_SHORT_PAYLOAD, /* the header is there, the payload goes on beyond the bytes given */
  RECORD_BAD_MAGIC,     /* no record begins here */
  RECORD_BAD_VERSION,   /* a record of a version that is neither 7 nor 8 */
};

/* Decodes the record at `data`, of which `available` bytes are there. On RECORD_OK fills `out` but
 * for `offset`; on RECORD_OK and on RECORD_SHORT_ sets `size` to the bytes the record needs as far
 * as that is known yet. `is_swapped` is the byte order of the file. */
enum record_status record_decode(const uint8_t *data, size_t available, bool is_swapped,
                                 struct record *out, size_t *size);

/* Says whether the four bytes at `data` are a record's magic in the foreign byte order. */
bool record_is_foreign(const uint8_t *data);

/* Big-endian numbers of payloads. */
uint32_t record_be32(const uint8_t *data);
uint64_t record_be64(const uint8_t *data);

/* A number of a payload in the byte order of the record's file. */
uint32_t record_u32(const struct record *record, size_t at);

#endif
