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
  SCAN_APPENDS,
  SCAN_ZONE_OPERATIONS, /* and appends */
  SCAN_ZONE_POINTER,    /* writes elsewhere than where their zone is written next */
  SCAN_ZONE_CROSSING,   /* writes that pass the end of their zone */
  SCAN_ZONE_MORE,       /* what would have more zones open or active than can be */
};
#define SCAN_COUNTS 12U

struct scan_target {
  struct block_map *map;  /* the space that the writes take; NULL: it is not asked for */
  struct zone_map *zones; /* of the target, moved by the scan; NULL: it has none */
  uint64_t limit_bytes;   /* the end of the longest file; UINT64_MAX: any */
  uint64_t counts[SCAN_COUNTS];
};

/* Reads the part of the plan that runs, and counts for each of the session's targets. Returns 0 or
 * -errno after a line on stderr. */
int plan_scan(const struct block_session *session, struct scan_target *targets);

#endif
