/* A plan file: what to do, when and where. INTERFACE.md gives it byte by byte. */
#ifndef TRACEKIT_PLAY_BLOCK_PLAN_H
#define TRACEKIT_PLAY_BLOCK_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "play/crc.h"

#define BLOCK_PLAN_MAGIC "TKPLAN\r\n"
#define SECTOR_BYTES 512U
#define BLOCK_PLAN_STRIDE 4096U /* records in a block of the index */
#define BLOCK_PLAN_TARGETS_MAX 64U
#define BLOCK_PLAN_TRANSFER_MAX (64U << 20) /* bytes of one read or write */
#define BLOCK_PLAN_AFTER_MAX (1U << 20)     /* records back that a request can wait for */

enum block_operation {
  BLOCK_READ,
  BLOCK_WRITE,
  BLOCK_FLUSH,
  BLOCK_DISCARD,
  BLOCK_WRITE_ZEROES,
  BLOCK_ZONE_APPEND,
  BLOCK_ZONE_RESET,
  BLOCK_ZONE_RESET_ALL,
  BLOCK_ZONE_OPEN,
  BLOCK_ZONE_CLOSE,
  BLOCK_ZONE_FINISH,
};
#define BLOCK_OPERATIONS 11U

enum block_flag {
  BLOCK_FUA = 1,
  BLOCK_PREFLUSH = 2,
  BLOCK_SYNC = 4,
  BLOCK_META = 8,
  BLOCK_READAHEAD = 16,
};
#define BLOCK_FLAGS 31U

/* One request, as in the file. */
struct block_record {
  uint64_t intended_ns;    /* from the start of the plan; never decreases */
  uint64_t sector;         /* first 512-byte sector, from the start of the target */
  uint64_t request_id;     /* of the trace */
  uint32_t length_sectors; /* 512-byte sectors; 0 for a flush and for an operation on a zone */
  uint8_t operation;       /* enum block_operation */
  uint8_t flags;           /* enum block_flag, or'ed */
  uint16_t target;         /* index in the table of targets */
  uint64_t think_ns;       /* from the completion of the request it waits for; 0 without one */
  uint32_t after;          /* how many records before it that one stands; 0: it waits for none */
  uint32_t note;           /* in memory: see feed.h */
};

struct block_target {
  char label[32];                    /* NUL-padded, for example "journal" */
  uint64_t needed_bytes;             /* end of the highest address */
  uint64_t counts[BLOCK_OPERATIONS]; /* requests by operation */
  uint64_t bytes[BLOCK_OPERATIONS];  /* bytes by operation */
  uint64_t address_bits;             /* all first sectors and lengths or'ed: shows the alignment */
};

struct block_plan {
  int fd;
  const char *path; /* borrowed */
  struct crc_table crc;
  uint64_t record_count;
  uint64_t duration_ns;        /* intended time of the last record */
  uint64_t records_offset;     /* byte in the file */
  uint64_t index_offset;       /* byte in the file */
  uint64_t max_transfer_bytes; /* longest read or write */
  uint32_t operations;         /* that its version has */
  uint32_t level;              /* 0 as queued, 1 as issued */
  uint32_t target_count;       /* 1 to BLOCK_PLAN_TARGETS_MAX */
  uint8_t trace_sha256[32];    /* of the trace it was made from */
  struct block_target targets[BLOCK_PLAN_TARGETS_MAX];
};

/* Opens a plan and checks its header and tables. The caller owns *plan and calls block_plan_close.
 * Returns 0 or -errno after a line on stderr; -EINVAL when it is no valid plan. */
int block_plan_open(struct block_plan *plan, const char *path);

/* Number of blocks of BLOCK_PLAN_STRIDE records. */
uint64_t block_plan_blocks(const struct block_plan *plan);

/* Sets *first_ns to the intended time of the first record of a block, by the index. Returns as
 * block_plan_read_block. */
int block_plan_block_time(const struct block_plan *plan, uint64_t block, uint64_t *first_ns);

/* Reads block `block` into `records` (space for BLOCK_PLAN_STRIDE), checks its checksum, order and
 * every value, and sets *count. `last_ns` is the intended time of the record before it and is moved
 * on. Returns 0 or -errno after a line on stderr. Any one thread at a time a `last_ns`. */
int block_plan_read_block(const struct block_plan *plan, uint64_t block,
                          struct block_record *records, uint32_t *count, uint64_t *last_ns);

/* Sets *position to that of the first record whose intended time is not before `from_ns`, to the
 * number of records when there is none. Reads a few index entries and one block. Returns as above.
 */
int block_plan_seek(const struct block_plan *plan, uint64_t from_ns, uint64_t *position);

/* Sets *intended_ns to that of the record at `position`. Returns as above. */
int block_plan_time_of(const struct block_plan *plan, uint64_t position, uint64_t *intended_ns);

/* Reads and checks the whole plan, and that its targets are what the records add up to. Returns as
 * above. */
int block_plan_check_all(const struct block_plan *plan);

/* Returns whether an operation is on a zone as a whole, which its first sector names: it moves no
 * data and has no length. */
static inline bool block_operation_is_zone(uint8_t operation) {
  return operation >= BLOCK_ZONE_RESET && operation <= BLOCK_ZONE_FINISH;
}

/* Returns the name of an operation, such as "write_zeroes". */
const char *block_operation_name(enum block_operation operation);

/* Closes the file; does nothing for a plan that block_plan_open rejected. */
void block_plan_close(struct block_plan *plan);

#endif
