/* The files of an OCTF trace, one for each cpu: messages behind their lengths, merged by time. */
#ifndef TRACEKIT_READ_OCTF_SOURCE_H
#define TRACEKIT_READ_OCTF_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read/merge_heap.h"
#include "read/wire.h"

#define OCTF_MOST_MESSAGE 65536u /* bytes; the framework's own are below 1 KiB */

enum octf_problem_kind {
  OCTF_PROBLEM_NONE,
  OCTF_PROBLEM_CUT,     /* the file ends within a message; value = bytes that are there */
  OCTF_PROBLEM_LENGTH,  /* a length of no message; value = the length */
  OCTF_PROBLEM_MESSAGE, /* no Event message; value = its bytes */
  OCTF_PROBLEM_HEADER,  /* an Event without a header; value = its bytes */
  OCTF_PROBLEM_TIME,    /* value = the time, beyond 63 bits */
  OCTF_PROBLEM_PLACE,   /* value = the sector, beyond 2^53 */
  OCTF_PROBLEM_DEVICES, /* too many; value = their number */
  OCTF_PROBLEM_READ,    /* reading failed; value = errno */
  OCTF_PROBLEM_MEMORY,
};

struct octf_problem {
  int32_t kind;   /* enum octf_problem_kind */
  int32_t file;   /* index of the input */
  int64_t offset; /* of the message, bytes from the start of the (decompressed) file */
  uint64_t value; /* see the kind */
};

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

/* One `Event` message (trace.proto) of any version: fields that are not known are passed over,
 * missing ones are 0. */
struct octf_event {
  uint64_t sid, time_ns;
  enum octf_kind kind;
  bool has_header;
  uint64_t values[OCTF_FIELDS]; /* numbers of the event's own message, by field */
  struct wire name;             /* of a device; within the message */
};

struct octf_source {
  int fd;              /* borrowed */
  int32_t index;       /* of the input */
  bool is_at_end;      /* nothing more to read from `fd` */
  uint8_t *bytes;      /* read and not yet decoded: [begin, end) */
  size_t begin, end;   /* bytes */
  uint64_t offset;     /* of bytes[begin] in the file */
  size_t message_size; /* of the event at hand, its length included */
  struct octf_event event;
  struct octf_problem cut; /* the file ended within a message */
};

/* Embedded by its owner. */
struct octf_merge {
  struct octf_source *sources;
  struct merge_head *heap; /* of the sources that have an event */
  size_t count, live;
  bool is_started;
};

/* Says whether `size` bytes begin with messages that all are events with a header, a time and a
 * known kind, whole ones but for the last. */
bool octf_detect(const uint8_t *head, size_t size);

/* Prepares reading; `head` was taken from the first descriptor already, `size` at most
 * OCTF_MOST_MESSAGE. Returns 0 or -ENOMEM; octf_merge_close in both cases. */
int octf_merge_open(struct octf_merge *merge, const int32_t *fds, size_t count, const uint8_t *head,
                    size_t size);
void octf_merge_close(struct octf_merge *merge);

/* The source with the earliest event, or NULL at the end of all. Returns 0 or -EBADMSG. */
int octf_merge_peek(struct octf_merge *merge, struct octf_source **out,
                    struct octf_problem *problem);

/* Goes on behind that event. Returns 0 or -EBADMSG. */
int octf_merge_pop(struct octf_merge *merge, struct octf_problem *problem);

#endif
