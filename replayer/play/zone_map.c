#include "play/zone_map.h"

#include <errno.h>
#include <linux/blkzoned.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#define REPORTED 1024U /* zones of one call */

struct zone {
  uint64_t next;    /* sector that is written next; of no use for a conventional zone */
  uint64_t end;     /* sector behind the last that can be written */
  bool is_in_order; /* it can only be written at `next` */
};

struct zone_map {
  uint64_t zone_sectors; /* of every zone but perhaps the last */
  uint64_t size_sectors;
  uint64_t count;
  bool is_cut; /* requests end with their zone */
  struct zone zones[];
};

static void take(struct zone_map *map, const struct blk_zone *reported, bool has_capacity) {
  struct zone *zone = &map->zones[map->count++];
  uint64_t usable = has_capacity ? reported->capacity : reported->len;
  zone->is_in_order = reported->type == BLK_ZONE_TYPE_SEQWRITE_REQ;
  zone->end = reported->start + usable;
  zone->next = reported->cond == BLK_ZONE_COND_FULL || reported->cond == BLK_ZONE_COND_READONLY ||
                       reported->cond == BLK_ZONE_COND_OFFLINE
                   ? zone->end
                   : reported->wp;
}

static int report(struct zone_map *map, int fd, uint64_t zones) {
  size_t bytes = sizeof(struct blk_zone_report) + REPORTED * sizeof(struct blk_zone);
  struct blk_zone_report *report = malloc(bytes);
  int rc = report == NULL ? -ENOMEM : 0;
  while (rc == 0 && map->count < zones) {
    report->sector = map->count * map->zone_sectors;
    report->nr_zones = REPORTED;
    if (ioctl(fd, BLKREPORTZONE, report) != 0)
      rc = -errno;
    else if (report->nr_zones == 0)
      rc = -EIO;
    for (uint32_t i = 0; rc == 0 && i < report->nr_zones && map->count < zones; i++)
      take(map, &report->zones[i], (report->flags & BLK_ZONE_REP_CAPACITY) != 0);
  }
  free(report);
  return rc;
}

int zone_map_open(struct zone_map **out, int fd, bool is_cut) {
  uint32_t zone_sectors = 0;
  uint32_t zones = 0;
  uint64_t size_bytes;
  *out = NULL;
  /* Older kernels, and files, do not know the question. */
  if (ioctl(fd, BLKGETZONESZ, &zone_sectors) != 0 || zone_sectors == 0)
    return 0;
  if (ioctl(fd, BLKGETNRZONES, &zones) != 0 || ioctl(fd, BLKGETSIZE64, &size_bytes) != 0)
    return -errno;
  struct zone_map *map = calloc(1, sizeof *map + zones * sizeof *map->zones);
  if (map == NULL)
    return -ENOMEM;
  map->zone_sectors = zone_sectors;
  map->is_cut = is_cut;
  map->size_sectors = size_bytes / SECTOR_BYTES;
  int rc = report(map, fd, zones);
  if (rc == 0)
    *out = map;
  else
    free(map);
  return rc;
}

void zone_map_zone_of(const struct zone_map *map, uint64_t sector, uint64_t *first,
                      uint64_t *length_sectors) {
  uint64_t left = map->size_sectors - sector / map->zone_sectors * map->zone_sectors;
  *first = sector / map->zone_sectors * map->zone_sectors;
  *length_sectors = left < map->zone_sectors ? left : map->zone_sectors;
}

/* A write within one zone. */
static enum zone_verdict write_part(struct zone *zone, uint64_t sector, uint64_t length) {
  if (!zone->is_in_order)
    return ZONE_TAKES;
  if (sector != zone->next)
    return ZONE_REJECTS_PLACE;
  if (sector + length > zone->end)
    return ZONE_REJECTS_LENGTH;
  zone->next += length;
  return ZONE_TAKES;
}

/* A write over the end of a zone fails as a whole, or when one of its parts does. */
static enum zone_verdict follow_write(struct zone_map *map, uint64_t sector, uint64_t length) {
  uint64_t number = sector / map->zone_sectors;
  uint64_t last = (sector + length - 1) / map->zone_sectors;
  if (number == last)
    return write_part(&map->zones[number], sector, length);
  bool fails = false;
  for (; number <= last && number < map->count; number++) {
    uint64_t end = (number + 1) * map->zone_sectors;
    uint64_t size = sector + length < end ? length : end - sector;
    bool is_rejected = map->is_cut ? write_part(&map->zones[number], sector, size) != ZONE_TAKES
                                   : map->zones[number].is_in_order;
    fails = fails || is_rejected;
    sector += size;
    length -= size;
  }
  return fails ? ZONE_REJECTS_LENGTH : ZONE_TAKES;
}

static void reset_all(struct zone_map *map) {
  for (uint64_t i = 0; i < map->count; i++)
    map->zones[i].next = i * map->zone_sectors;
}

/* A zone that is written in any order is no matter of operations on zones either. */
enum zone_verdict zone_map_follow(struct zone_map *map, uint8_t operation, uint64_t *sector,
                                  uint64_t length_sectors) {
  uint64_t number = *sector / map->zone_sectors;
  if (operation == BLOCK_FLUSH || number >= map->count)
    return ZONE_TAKES; /* what is behind the end is no matter of zones */
  struct zone *zone = &map->zones[number];
  switch ((enum block_operation)operation) {
  case BLOCK_WRITE:
  case BLOCK_WRITE_ZEROES:
    return follow_write(map, *sector, length_sectors);
  case BLOCK_ZONE_APPEND:
    if (!zone->is_in_order)
      return ZONE_REJECTS_PLACE;
    *sector = zone->next;
    return follow_write(map, *sector, length_sectors);
  case BLOCK_ZONE_RESET:
    zone->next = number * map->zone_sectors;
    return zone->is_in_order ? ZONE_TAKES : ZONE_REJECTS_PLACE;
  case BLOCK_ZONE_RESET_ALL:
    reset_all(map);
    return ZONE_TAKES;
  case BLOCK_ZONE_FINISH:
    zone->next = zone->end;
    return zone->is_in_order ? ZONE_TAKES : ZONE_REJECTS_PLACE;
  case BLOCK_ZONE_OPEN:
  case BLOCK_ZONE_CLOSE:
    return zone->is_in_order ? ZONE_TAKES : ZONE_REJECTS_PLACE;
  case BLOCK_READ:
  case BLOCK_FLUSH:
  case BLOCK_DISCARD:
    return ZONE_TAKES;
  }
  return ZONE_TAKES;
}

void zone_map_close(struct zone_map *map) { free(map); }
