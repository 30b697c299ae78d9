/* Which part of a request each device holds, for every capacity at which that changes. */
#ifndef TRACEKIT_MODEL_SHARE_H
#define TRACEKIT_MODEL_SHARE_H

#include <stdint.h>

/* What the base device holds while the blocks of this and of later cuts are there. */
struct share_cut {
  int64_t sectors; /* on the base device */
  int64_t first;   /* its first sector there */
  int64_t end;     /* one past its last sector there */
  uint16_t point;  /* of the blocks that leave next */
};

/* A block is on NVM below a limit above its point; `cuts` ascend by point. */
struct share {
  struct share_cut *cuts;
  uint32_t count;
  uint32_t room;
  uint16_t first_point; /* of the request's first block */
  uint16_t last_point;
};

/* Begins a new request, keeping the memory. */
void share_clear(struct share *share);

/* Adds the next sectors of the request, ascending. Returns 0 or -ENOMEM. */
int share_add(struct share *share, uint16_t point, int64_t sector, int64_t end);

/* Sorts what was added and sums it up: call once, after the last sectors. */
void share_finish(struct share *share);

/* Frees the memory of a share; one of zeros is fine. */
void share_free(struct share *share);

#endif
