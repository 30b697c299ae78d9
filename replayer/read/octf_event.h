/* One `Event` message of the Open CAS telemetry framework (trace.proto), of any version of it:
 * fields that are not known here are passed over, those that are not there are 0. */
#ifndef TRACEKIT_READ_OCTF_EVENT_H
#define TRACEKIT_READ_OCTF_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/wire.h"

/* By the number of the event's field. */
enum octf_kind {
  OCTF_UNKNOWN = 0,
  OCTF_IO = 2,
  OCTF_DEVICE = 3,
  OCTF_FILE_META = 4,
  OCTF_COMPLETION = 5,
  OCTF_FILE_NAME = 6,
  OCTF_FILE_EVENT = 7,
};

/* Numbers of the fields of EventIo. */
enum {
  IO_LBA = 1,
  IO_LENGTH = 2,
  IO_CLASS = 3, /* of before version 2, in place of the flag for metadata */
  IO_DEVICE = 4,
  IO_OPERATION = 5,
  IO_FLUSH = 6,
  IO_FUA = 7,
  IO_ID = 9,
  IO_METADATA = 10,
  IO_READAHEAD = 12,
  OCTF_FIELDS = 13,
};
/* Of EventIoCompletion; lba and length are those of EventIo. */
enum { DONE_ERROR = 3, DONE_DEVICE = 4, DONE_REF_ID = 5 };
/* Of EventDeviceDescription. */
enum { DEVICE_ID = 1, DEVICE_NAME = 2, DEVICE_SECTORS = 3 };

struct octf_event {
  uint64_t sid, time_ns;
  enum octf_kind kind;
  bool has_header;
  uint64_t values[OCTF_FIELDS]; /* numbers of the event's own message, by field */
  struct wire name;             /* of a device; within the message */
};

/* Reads one whole message. Returns 0, or -EBADMSG when it is none; `out` is then undefined. */
int octf_event_read(const uint8_t *message, size_t size, struct octf_event *out);

/* Says whether `size` bytes begin with messages that all are events with a header, a time and a
 * known kind, whole ones but for the last. */
bool octf_detect(const uint8_t *head, size_t size);

#endif
