/* The zones of a zoned block device: where each can be written next, as the requests move it. */
#ifndef TRACEKIT_PLAY_ZONE_MAP_H
#define TRACEKIT_PLAY_ZONE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "play/block_plan.h"
#include "play/json.h"

/* What a device does with a request. */
enum zone_verdict {
  ZONE_TAKES,
  ZONE_REJECTS_PLACE,  /* a write that does not begin at the write pointer of its zone */
  ZONE_REJECTS_LENGTH, /* a write that passes the end of its zone */
  ZONE_REJECTS_MORE    /* what would have more zones open, or begun and not full, than can be */
};

struct zone_map;

/* Asks the device behind `fd` for its zones and their write pointers. The block layer cuts a
 * request at the end of a zone, so that its parts are taken or rejected each; commands to the
 * device are not
 * (`is_cut`). *out is NULL for a device without zones. Free with zone_map_close. Returns 0 or
 * -errno. */
int zone_map_open(struct zone_map **out, int fd, bool is_cut);

/* Moves the write pointers as the request does and returns what becomes of it. The place of an
 * append, which names only its zone, is set to where it is written. Requests in order of their
 * submission. */
enum zone_verdict zone_map_follow(struct zone_map *map, uint8_t operation, uint64_t *sector,
                                  uint64_t length_sectors);

/* Writes what the device has, as the object `zones`; nothing for NULL. */
void zone_map_write(struct json *json, const struct zone_map *map);

/* Sets the zone that the sector lies in: its first sector and its length. */
void zone_map_zone_of(const struct zone_map *map, uint64_t sector, uint64_t *first,
                      uint64_t *length_sectors);

/* NULL is fine. */
void zone_map_close(struct zone_map *map);

#endif
