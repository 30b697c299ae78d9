/* Texts of memory accesses, one or two a line: blocks of whole lines in, columns out. A wrong line
 * is left out and named; nothing else is lost by it.
 *
 * A reader is used by one thread at a time. */
#ifndef TRACEKIT_READ_MEMORY_TEXT_H
#define TRACEKIT_READ_MEMORY_TEXT_H

#include <stdint.h>

#include "common/export.h"
#include "common/memory_operation.h"

#define TK_MEMORY_ROWS_A_LINE 2

enum tk_memory_format {
  MEMORY_LACKEY,        /* valgrind --tool=lackey --trace-mem=yes: " L 1ffeffe7e0,8" */
  MEMORY_PERF_SCRIPT,   /* perf script of events with addresses: "... time: event: address ..." */
  MEMORY_PERF_REPORT,   /* perf mem report -D: "pid tid 0xip 0xaddress weight 0xsource symbol" */
  MEMORY_GEM5_PACKETS,  /* util/decode_packet_trace.py: "r,address,size,flags,tick" */
  MEMORY_GEM5_DEBUG,    /* --debug-flags=MemoryAccess: "tick: who: Read from ... on address 0x" */
  MEMORY_RAMULATOR,     /* "0x12345680 R", or of version 2 "LD 0x12345680" */
  MEMORY_RAMULATOR_CPU, /* "instructions address [address that is written back]" */
  MEMORY_FORMAT_END,
};

/* One block on its way; the arrays are the caller's. */
struct tk_memory_block {
  const char *text; /* whole lines, each with its '\n' */
  int64_t size;     /* bytes */
  /* Columns of `capacity` rows: -1 is not known, and so is a size of 0. */
  int64_t *instructions; /* number of the instruction, from 0 */
  int64_t *times_ns;     /* of the source's clock; perf and gem5 have them */
  uint64_t *addresses;
  int32_t *sizes;
  uint8_t *operations;  /* enum tk_memory_operation */
  int64_t capacity;     /* a block of more rows is read up to there; at least two */
  int64_t *wrong;       /* out: where in `text` each wrong line begins */
  int64_t *wrong_lines; /* out: its number in the block, from 0 */
  int64_t wrong_capacity;
  int64_t wrong_count, passed; /* out: wrong lines, and lines that are no accesses and not wrong */
  int64_t lines, rows, used;   /* out: lines and bytes read, rows written */
};

struct tk_memory;

/* Makes a reader. Returns 0, -EINVAL for a format that is none, or -ENOMEM. */
TK_EXPORT int tk_memory_open(int32_t format, struct tk_memory **out);

/* Reads the next block; instructions are counted on. Returns 0. */
TK_EXPORT int tk_memory_read(struct tk_memory *reader, struct tk_memory_block *block);

/* Returns how many instructions were seen, -1 for a format without them. */
TK_EXPORT int64_t tk_memory_instructions(const struct tk_memory *reader);

/* Frees the reader; NULL is fine. */
TK_EXPORT void tk_memory_close(struct tk_memory *reader);

#endif
