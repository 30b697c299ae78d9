/* Rejects what somebody else uses: the target, or anything that shares bytes with it. Decided by
 * device and inode numbers, never by names. */
#ifndef TRACEKIT_PLAY_GUARD_H
#define TRACEKIT_PLAY_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "play/graph.h"

#define GUARD_REASON_BYTES 256
#define GUARD_CLAIMS_MAX 16U

/* Devices below the target that are held by O_EXCL, so that nobody mounts them during the run. */
struct guard_claims {
  uint32_t count;
  int fds[GUARD_CLAIMS_MAX];
  dev_t devices[GUARD_CLAIMS_MAX];
};

/* What is asked of the guard, and what it answers. */
struct guard {
  enum graph_kind kind;       /* of the target */
  dev_t device;               /* its own number; of a file: that of its file system */
  ino_t inode;                /* of a file */
  dev_t below_device;         /* of a file on an overlay: of the one below that has its bytes */
  ino_t below_inode;          /* of that; 0: there is none */
  bool is_owner;              /* the target belongs to who runs this, or root runs it */
  bool is_written;            /* it is to be written */
  struct guard_claims claims; /* what is held */
  uint32_t unseen;            /* processes that could not be looked into */
  uint32_t tries;             /* how often to ask again who uses it: it may be for a moment */
  char why[GUARD_REASON_BYTES];
};

/* Checks that nothing that shares bytes with the target is mounted, swap, part of something else,
 * behind a loop device or exported, and claims the devices behind a loop device. Returns 0, or
 * -EBUSY with `why` when it is in use or when that cannot be known. */
int guard_check(struct guard *guard);

/* Checks that no other process may write to the target by what it has open or mapped, and of a file
 * that none has it open at all. `fd` must be the only descriptor of it that this program holds.
 * What takes a look at every process is left out when it will be asked `again`. Returns as
 * guard_check. */
int guard_check_openers(struct guard *guard, int fd, bool again);

/* Lets go of what is held. */
void guard_release(struct guard *guard);

#endif
