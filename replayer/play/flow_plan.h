/* A flow: what threads do again and again, choosing files only when they come to it. It is a part
 * of a file plan whose records are the flow's operations; INTERFACE.md gives it byte by byte. */
#ifndef TRACEKIT_PLAY_FLOW_PLAN_H
#define TRACEKIT_PLAY_FLOW_PLAN_H

#include <stdint.h>

#define FLOW_TABLE_VALUES 16384U /* of a table: equally likely */
#define FLOW_FDS_MAX 128U        /* of a thread */
#define FLOW_NONE UINT32_MAX     /* no table, set, or other operation */

/* What an operation does. The first ones work on files and count as I/O. */
enum flow_kind {
  FLOW_OPEN,
  FLOW_CREATE,
  FLOW_CLOSE,
  FLOW_READ,
  FLOW_WRITE,
  FLOW_READ_WHOLE,
  FLOW_WRITE_WHOLE,
  FLOW_APPEND,
  FLOW_APPEND_RANDOM, /* of 0 to size - 1 bytes */
  FLOW_DELETE,
  FLOW_STAT,
  FLOW_SYNC,
  FLOW_SYNC_SET, /* what the thread has open of the set */
  FLOW_MAKE_DIRECTORY,
  FLOW_REMOVE_DIRECTORY,
  FLOW_LIST,
  FLOW_DELAY,
  FLOW_HOG,
  FLOW_EVENT_LIMIT,
  FLOW_IO_LIMIT,
  FLOW_OPERATION_LIMIT,
  FLOW_BYTE_LIMIT,
  FLOW_FINISH_ON_COUNT,
  FLOW_FINISH_ON_BYTES,
  FLOW_SEMAPHORE_WAIT,
  FLOW_SEMAPHORE_POST,
  FLOW_BLOCK,
  FLOW_WAKE,
  FLOW_LOOP,
  FLOW_LOOP_END,
  FLOW_TEMPLATE,  /* the open that another operation does where its file is not open yet */
  FLOW_AIO_WRITE, /* submitted, and performed by a writer of the thread */
  FLOW_AIO_WAIT,
  FLOW_AIO_WRITER /* what such a writer does for its thread: its only kind */
};
#define FLOW_KINDS 34U

enum flow_flag {
  FLOW_IS_RANDOM = 1,     /* read, write: at a random multiple of the size */
  FLOW_ROTATES = 2,       /* the thread's descriptors in turn */
  FLOW_IS_INDEXED = 4,    /* the file by `index`, not by the rotor */
  FLOW_IS_BLOCKING = 8,   /* post: waits while it is too far ahead */
  FLOW_SPARES_OPEN = 16,  /* delete: the next file that nobody has open */
  FLOW_NO_READAHEAD = 32, /* open, create: POSIX_FADV_RANDOM */
};
#define FLOW_FLAGS 63U

/* When threads find no file, or have done what was to be done. */
enum flow_end { FLOW_END_TIME, FLOW_END_FIRST, FLOW_END_ALL };

/* A number, or one of a table's with equal chances. */
struct flow_value {
  uint64_t constant;
  uint32_t table; /* or FLOW_NONE */
  uint32_t reserved;
};

/* One operation, beside the record of the same number. */
struct flow_op {
  struct flow_value size;     /* bytes of a call; 0: the whole file in one */
  struct flow_value iters;    /* how often it is done */
  struct flow_value value;    /* seconds, turns, events, operations or bytes */
  struct flow_value index;    /* of a file */
  uint64_t working_set_bytes; /* 0: the file's */
  uint64_t highwater;         /* wait: how far posts may be ahead */
  uint32_t set;               /* or FLOW_NONE: it goes by fd */
  uint32_t fd;                /* below the header's fds */
  uint32_t source_fd;
  uint32_t link;  /* template, target, or the other end of a loop; or FLOW_NONE */
  uint32_t other; /* wait, block: the next one of the same target; writer: its thread; FLOW_NONE */
  uint16_t flags; /* enum flow_flag, or'ed */
  uint8_t kind;   /* enum flow_kind */
  uint8_t reserved[25];
};

/* Files or directories of one kind: a range of the members. */
struct flow_set {
  uint64_t first;
  uint32_t count;
  uint32_t reserved;
};

struct flow_header {
  uint32_t set_count;
  uint32_t table_count;
  uint64_t member_count;
  uint64_t seed;
  uint32_t events_per_second; /* 0: limits do not wait */
  uint32_t end;               /* enum flow_end */
  uint32_t fds;               /* of each thread but writers; handle = thread x fds + fd */
  uint32_t writers;           /* threads at the end of the plan */
  uint8_t reserved[24];
};

/* Points into the plan; header is NULL for a plan without a flow. */
struct flow_plan {
  const struct flow_header *header;
  const struct flow_op *ops;
  const struct flow_set *sets;
  const uint64_t *tables;
  const uint32_t *members; /* files of the plan */
};

#endif
