#include "model/spindle.h"

#include <math.h>

#define LONGEST_PS 1e15 /* of one seek: 1,000 s */

bool spindle_is_valid(const struct tk_spindle *spindle) {
  const double full_ps = spindle->track_ps + spindle->root_ps + spindle->linear_ps;
  return spindle->track_ps >= 0 && spindle->root_ps >= 0 && full_ps >= 0 && full_ps <= LONGEST_PS &&
         spindle->unknown_ps >= 0 && spindle->half_turn_ps > 0 && spindle->settle_ps[0] >= 0 &&
         spindle->settle_ps[1] >= 0 && spindle->track_sectors >= 0 && spindle->capacity_sectors > 0;
}

static int64_t seek_ps(const struct tk_spindle *spindle, int64_t distance) {
  if (distance < spindle->track_sectors)
    return 0;
  const double share = distance < spindle->capacity_sectors
                           ? (double)distance / (double)spindle->capacity_sectors
                           : 1.0;
  const double root_ps = spindle->root_ps * sqrt(share);
  const double linear_ps = spindle->linear_ps * share;
  return (int64_t)(spindle->track_ps + root_ps + linear_ps);
}

int64_t spindle_position_ps(const struct tk_spindle *spindle, int64_t head, int64_t sector,
                            int is_write) {
  if (head == sector)
    return 0;
  const int64_t distance = head < sector ? sector - head : head - sector;
  const int64_t moved_ps = head < 0 ? spindle->unknown_ps : seek_ps(spindle, distance);
  return moved_ps + (moved_ps > 0 ? spindle->settle_ps[is_write] : 0) + spindle->half_turn_ps;
}

int64_t spindle_longest_ps(const struct tk_spindle *spindle) {
  const int64_t full_ps = seek_ps(spindle, INT64_MAX);
  const int64_t seek = full_ps > spindle->unknown_ps ? full_ps : spindle->unknown_ps;
  const int64_t settle_ps =
      spindle->settle_ps[0] > spindle->settle_ps[1] ? spindle->settle_ps[0] : spindle->settle_ps[1];
  return seek + settle_ps + spindle->half_turn_ps;
}
