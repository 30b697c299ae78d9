/* The requests of a run, read before it: how many of them their targets take as they are. */
#ifndef TRACEKIT_PLAY_PLAN_SCAN_H
#define TRACEKIT_PLAY_PLAN_SCAN_H

#include "play/block_map.h"
#include "play/block_session.h"

enum scan_count {
  SCAN_BEYOND, /* pass the end of the target */
  SCAN_WRITES, /* and write zeroes and discards */
  SCAN_DISCARDS,
  SCAN_ZEROES,
  SCAN_UNALIGNED,       /* reads and writes that are no whole blocks of the target */
  SCAN_UNALIGNED_RANGE, /* discards and write zeroes that are none */
  SCAN_TOO_FAR,         /* writes beyond `limit_bytes` */
};
#define SCAN_COUNTS 7U

struct scan_target {
  struct block_map *map; /* the space that the writes take; NULL: it is not asked for */
  uint64_t limit_bytes;  /* the end of the longest file; UINT64_MAX: any */
  uint64_t counts[SCAN_COUNTS];
};

/* Reads the part of the plan that runs, and counts for each of the session's targets. Returns 0 or
 * -errno after a line on stderr. */
int plan_scan(const struct block_session *session, struct scan_target *targets);

#endif
