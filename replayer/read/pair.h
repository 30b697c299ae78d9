/* Pairs events into one row for each queued I/O: docs/requests.md, "One row a request". */
#ifndef TRACEKIT_READ_PAIR_H
#define TRACEKIT_READ_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/idmap.h"
#include "common/names.h"
#include "read/cgroups.h"
#include "read/open_requests.h"
#include "read/record.h"
#include "read/rows.h"

#define REMAPS_PENDING 4096u /* a power of two */
#define RECENT_NAMES 256u    /* a power of two */

/* Events that found no partner, by what they were. */
enum unmatched {
  UNMATCHED_QUEUE, /* queued I/O that never completed */
  UNMATCHED_GETRQ, /* G, I, D of a request that was never seen queued */
  UNMATCHED_INSERT,
  UNMATCHED_ISSUE,
  UNMATCHED_COMPLETE, /* C of a request that is not open */
  UNMATCHED_MERGE,    /* M or F without the queued I/O or without the merge target */
  UNMATCHED_REQUEUE,
  UNMATCHED_SPLIT,
  UNMATCHED_REMAP, /* A that no queued I/O followed */
  UNMATCHED_END,
};

/* What the kernel counts of a disk, as Documentation/admin-guide/iostats.rst has it. */
enum counted {
  COUNTED_READ,
  COUNTED_WRITE, /* empty flushes that were queued too */
  COUNTED_DISCARD,
  COUNTED_FLUSH, /* of the device, made by the kernel */
  COUNTED_END,
};

/* When the kernel's counters were read, first and last possible raw time of it. Completions between
 * the two readings are counted; those within one of them may be in the kernel's count or not. */
struct watch {
  uint64_t begin_ns[2], end_ns[2]; /* zero: nothing was read */
};

struct pair_counts {
  int64_t actions[ACTION_END]; /* events by action */
  int64_t notifies[NOTIFY_END];
  int64_t unknown;             /* events of an action that we do not know */
  int64_t passthrough;         /* events of commands that are no block I/O (SCSI, NVMe) */
  int64_t device_flushes;      /* D of the cache flushes that the kernel itself makes */
  int64_t evicted;             /* rows that left unfinished because the window was full */
  int64_t requeued_remainders; /* Q of what a split left over, part of a row already */
  int64_t unmatched[UNMATCHED_END];
  uint64_t base_ns, last_ns; /* raw time of the first and of the last event */
  uint64_t wall_at_ns;       /* raw time at which `wall_ns` was read, see has_wall */
  int64_t wall_ns;           /* unix time */
  bool has_base, has_wall;
  uint64_t cpus[1024]; /* a bit for each that has an event */
};

struct device {
  uint32_t number;                  /* major << 20 | minor */
  int32_t name;                     /* index into device_names */
  int32_t open;                     /* queued and not complete */
  bool has_requests;                /* I/Os become requests: not of dm, md and such */
  uint32_t first_flush, last_flush; /* open empty flushes, oldest first; NO_REQUEST when none */
  int64_t completed[COUNTED_END];   /* requests, see struct watch */
  int64_t at_edge[COUNTED_END];     /* that may be or not be between the readings */
};

struct remap {
  uint64_t sector; /* on the device it was mapped to */
  uint32_t device; /* index of that */
  uint32_t from;   /* device number it came from */
  uint8_t kind;
  bool is_pending;
};

/* The name that a line of text gave last to a process: nearly all lines repeat it. */
struct recent_name {
  uint32_t pid;
  uint16_t length;
  uint8_t name[PAYLOAD_BYTES];
};

struct pairing {
  struct rows rows;
  struct open_requests requests;
  struct device *devices;
  uint32_t latest_device; /* that an event named, of most the next one too */
  uint32_t device_count, device_capacity;
  struct idmap device_index;    /* device number to index */
  struct idmap device_alias;    /* device number to name, from the layout */
  struct idmap process_of_pid;  /* pid to name */
  struct idmap partition_index; /* device number to name */
  struct names device_names, process_names, partition_names;
  struct cgroups cgroups;
  struct remap *remaps;                          /* REMAPS_PENDING places, by hash */
  struct recent_name recent_names[RECENT_NAMES]; /* by pid */
  struct pair_counts counts;
  struct watch watch;
};
/* Prepares an empty pairing. Returns 0 or -ENOMEM; pair_close in both cases. */
int pair_open(struct pairing *pairing);
void pair_close(struct pairing *pairing);

/* Names a process, or a device (major << 20 | minor) that has not occurred yet. 0 or -errno. */
int pair_name_process(struct pairing *pairing, uint32_t pid, const char *name, size_t length);
int pair_name_device(struct pairing *pairing, uint32_t number, const char *name, size_t length);

/* Takes in the next record in order of time. Returns 0 or -ENOMEM. */
int pair_record(struct pairing *pairing, const struct record *record);

/* After the last record: ends every open row; to make space: the oldest though it is not done. */
void pair_end(struct pairing *pairing);
void pair_evict(struct pairing *pairing);

#endif
