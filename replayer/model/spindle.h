/* The time a disk needs to bring its head over a sector: seek by distance, then half a turn.
 *
 * Seek time over the distance x, as a share of the whole stroke (Lee and Katz, "An analytic
 * performance model of disk arrays", SIGMETRICS 1993; DiskSim's three-point curve):
 *   t(x) = track + root * sqrt(x) + linear * x
 * with root and linear such that t(1) is the full stroke and the mean over all pairs of places is
 * the average seek. Distances are of block addresses; below one track only the turn is waited for,
 * and what continues at the head's place waits for nothing. */
#ifndef TRACEKIT_MODEL_SPINDLE_H
#define TRACEKIT_MODEL_SPINDLE_H

#include <stdbool.h>
#include <stdint.h>

/* Times in picoseconds, distances in sectors of 512 bytes. */
struct tk_spindle {
  double track_ps;
  double root_ps;
  double linear_ps;
  int64_t unknown_ps;       /* the seek of the first access: the head may be anywhere */
  int64_t half_turn_ps;     /* 0: the device is no disk, nothing of this holds */
  int64_t settle_ps[2];     /* index 0 reads, 1 writes: added to each seek */
  int64_t track_sectors;    /* what passes in one turn */
  int64_t capacity_sectors; /* the whole stroke */
};

/* Says whether the values can be those of a disk. */
bool spindle_is_valid(const struct tk_spindle *spindle);

/* Returns the time from `head` (one past the last sector accessed, -1: unknown) to `sector`. */
int64_t spindle_position_ps(const struct tk_spindle *spindle, int64_t head, int64_t sector,
                            int is_write);

/* Returns the longest time that a position can take. */
int64_t spindle_longest_ps(const struct tk_spindle *spindle);

#endif
