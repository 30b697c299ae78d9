/* A place that requests go to: a file made for the run, an existing file, a block device, or
 * persistent memory that is only mapped. */
#ifndef TRACEKIT_PLAY_TARGET_H
#define TRACEKIT_PLAY_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "play/block_plan.h"
#include "play/guard.h"
#include "play/zone_map.h"

enum target_kind { TARGET_NONE, TARGET_MADE_FILE, TARGET_FILE, TARGET_DEVICE, TARGET_DAX };
enum target_direct { DIRECT_AUTO, DIRECT_ON, DIRECT_OFF };

#define TARGET_TOKEN_BYTES 512U

struct target {
  char label[33];                 /* of the plan */
  const char *path;               /* as given, borrowed; NULL for the null engine */
  enum target_kind kind;          /* TARGET_NONE for the null engine */
  int fd;                         /* -1 for the null engine */
  dev_t device;                   /* of a device: its own number; else of its file system */
  ino_t inode;                    /* of a file */
  uint64_t needed_bytes;          /* end of the highest address of the plan */
  uint64_t size_bytes;            /* UINT64_MAX for the null engine */
  uint32_t align_bytes;           /* of addresses and lengths with O_DIRECT */
  uint64_t map_align_bytes;       /* lengths of mappings are multiples of it; 1: any */
  struct zone_map *zones;         /* of a zoned device; NULL: it has none */
  uint16_t priority;              /* of its reads and writes, as ioprio_set(2) takes it; 0: none */
  bool is_direct;                 /* opened with O_DIRECT */
  bool expands;                   /* transfers are widened to multiples of align_bytes */
  bool may_write;                 /* opened for writing */
  bool is_probed;                 /* libblkid was asked what it holds, not only our table */
  bool can_discard;               /* punch hole or BLKDISCARD works */
  bool can_zero;                  /* zero range works; otherwise zeroes are written */
  const char *direct_note;        /* why it is buffered; "" when direct or not asked */
  struct guard guard;             /* who else uses it; of what was there before */
  char token[TARGET_TOKEN_BYTES]; /* what --write-to must say; "" for a file made for the run */
};

/* How targets are opened. */
struct target_rules {
  enum target_direct direct;    /* --direct */
  bool expands;                 /* --expand */
  const char *const *write_to;  /* confirmations given */
  uint32_t write_to_count;      /* how many */
  const char *const *overwrite; /* signatures that may be overwritten */
  uint32_t overwrite_count;     /* how many */
  bool may_create;              /* false in a dry run */
};

/* Opens target `path` for the plan's target `plan_target`. Nothing is written to what exists.
 * Rejects what is in use, what bears a signature, what is neither file nor block device nor DAX.
 * The caller closes it with target_close. Returns 0 or -errno after a line on stderr; -EBUSY in
 * use, -EPERM not allowed. */
int target_open(struct target *target, const char *path, const struct block_target *plan_target,
                const struct target_rules *rules);

/* Makes a target for the null engine: without end, everything allowed. */
void target_open_none(struct target *target, const struct block_target *plan_target);

/* Returns whether operations on zones and appends have a meaning on the target. */
bool target_has_zones(const struct target *target);

/* Repeats all checks right before the start: who uses it, who has it open, what it holds. Returns
 * as target_open. */
int target_check_again(struct target *target, const struct target_rules *rules);

/* Returns "made file", "file", "block device", "dax device" or "none". */
const char *target_kind_name(enum target_kind kind);

/* Closes the target and, unless `keep`, removes a file made for the run. */
void target_close(struct target *target, bool keep);

#endif
