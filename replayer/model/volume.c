#include "model/volume.h"

#include <stdlib.h>
#include <string.h>

#define WAS_WRITE 1U   /* of a row's last access: it was a write */
#define WAS_UNTIMED 2U /* its time is not known */

struct volume *volumes_get(struct volumes *volumes, uint16_t device) {
  struct volume **volume = &volumes->of_device[device];

  if (!*volume)
    *volume = calloc(1, sizeof(**volume));
  return *volume;
}

void volumes_clear(struct volumes *volumes) {
  for (size_t i = 0; i < VOLUMES_MAX; i++)
    if (volumes->of_device[i])
      memset(volumes->of_device[i], 0, sizeof(*volumes->of_device[i]));
}

int volumes_read(const struct volumes *volumes, uint16_t device, struct volume_counts *counts,
                 uint64_t *intervals) {
  const struct volume *volume = volumes->of_device[device];

  if (!volume)
    return 0;
  *counts = volume->counts;
  memcpy(intervals, volume->intervals, sizeof(volume->intervals));
  return 1;
}

void volumes_free(struct volumes *volumes) {
  for (size_t i = 0; i < VOLUMES_MAX; i++)
    free(volumes->of_device[i]);
}

static unsigned bucket_of(uint64_t value) {
  unsigned shift = 0;

  if (value >> (VOLUME_OCTAVE_BITS + 1))
    shift = 63U - VOLUME_OCTAVE_BITS - (unsigned)__builtin_clzll(value);
  return (shift << VOLUME_OCTAVE_BITS) + (unsigned)(value >> shift);
}

/* Times that go back are no time apart. */
static void count(struct volume *volume, enum volume_interval kind, int64_t from_ns,
                  int64_t to_ns) {
  unsigned bucket = VOLUME_BUCKETS;

  if (from_ns != VOLUME_NO_TIME && to_ns != VOLUME_NO_TIME)
    bucket = to_ns > from_ns ? bucket_of((uint64_t)to_ns - (uint64_t)from_ns) : 0;
  volume->intervals[kind][bucket]++;
}

static int is_random(const struct volume *volume, uint64_t before, int64_t sector) {
  uint64_t known = before < VOLUME_RECENT ? before : VOLUME_RECENT;
  int is_near = !known; /* what is first has no distance */

  for (uint64_t i = 0; i < known; i++)
    is_near |= llabs(sector - volume->recent[i]) <= VOLUME_NEAR_SECTORS;
  return !is_near;
}

void volume_request(struct volume *volume, int64_t sector, int is_write, int64_t time_ns) {
  struct volume_counts *counts = &volume->counts;
  uint64_t before = counts->reads + counts->writes;

  *(is_write ? &counts->random_writes : &counts->random_reads) +=
      (uint64_t)is_random(volume, before, sector);
  ++*(is_write ? &counts->writes : &counts->reads);
  volume->recent[before % VOLUME_RECENT] = sector;
  if (before)
    count(volume, VOLUME_ARRIVAL, volume->arrival_ns, time_ns);
  volume->arrival_ns = time_ns;
}

void volume_access(struct volume *volume, struct leaf_row *row, int is_write, int64_t time_ns) {
  if (row->reads | row->writes) {
    unsigned kind = (row->last_access & WAS_WRITE ? VOLUME_RAW : VOLUME_RAR) + (unsigned)is_write;

    count(volume, kind, row->last_access & WAS_UNTIMED ? VOLUME_NO_TIME : row->last_ns, time_ns);
  }
  if (is_write && row->writes)
    count(volume, VOLUME_UPDATE, row->last_write_ns, time_ns);
  if (is_write)
    row->last_write_ns = time_ns;
  row->last_access =
      (uint8_t)((is_write ? WAS_WRITE : 0) | (time_ns == VOLUME_NO_TIME ? WAS_UNTIMED : 0));
}
