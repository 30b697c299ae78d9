#include "play/zone_map.h"

#include <errno.h>
#include <linux/blkzoned.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "play/number.h"
#include "play/sysfs.h"

#define REPORTED 1024U /* zones of one call */

/* What a zone is to its device, for the limits of these. */
enum state { EMPTY, OPENED_BY_WRITE, OPENED, CLOSED, FULL };

struct zone {
  enum state state;
  uint64_t next;    /* sector that is written next; of no use for a conventional zone */
  uint64_t end;     /* sector behind the last that can be written */
  bool is_in_order; /* it can only be written at `next` */
};

struct zone_map {
  uint64_t count;
  uint64_t in_order;     /* of these, that can only be written at their write pointers */
  uint64_t zone_sectors; /* of every zone but perhaps the last */
  uint64_t size_sectors;
  uint64_t most_open;          /* at once; 0: all */
  uint64_t most_active;        /* the same of those that are open, or closed and not full */
  uint64_t in_state[FULL + 1]; /* zones that are written in order, by state */
  bool is_cut;                 /* requests end with their zone */
  struct zone zones[];
};

static enum state state_of(uint8_t condition) {
  switch (condition) {
  case BLK_ZONE_COND_IMP_OPEN:
    return OPENED_BY_WRITE;
  case BLK_ZONE_COND_EXP_OPEN:
    return OPENED;
  case BLK_ZONE_COND_CLOSED:
    return CLOSED;
  case BLK_ZONE_COND_EMPTY:
    return EMPTY;
  default:
    return FULL; /* or of no use */
  }
}

static void set_state(struct zone_map *map, struct zone *zone, enum state state) {
  if (!zone->is_in_order)
    return;
  map->in_state[zone->state]--;
  map->in_state[state]++;
  zone->state = state;
}

static void take(struct zone_map *map, const struct blk_zone *reported, bool has_capacity) {
  struct zone *zone = &map->zones[map->count++];
  uint64_t usable = has_capacity ? reported->capacity : reported->len;
  zone->is_in_order = reported->type == BLK_ZONE_TYPE_SEQWRITE_REQ;
  zone->state = state_of(reported->cond);
  map->in_order += zone->is_in_order;
  map->in_state[zone->state] += zone->is_in_order;
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

/* A number of the device's queue; 0 where there is none: no limit. */
static uint64_t limit_of(int fd, const char *name) {
  struct stat status;
  char text[32];
  uint64_t limit = 0;
  if (fstat(fd, &status) != 0 || sysfs_read(status.st_rdev, name, text, sizeof text) != 0 ||
      number_parse(text, 0, UINT32_MAX, &limit) != 0)
    return 0;
  return limit;
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
  map->most_open = limit_of(fd, "queue/max_open_zones");
  map->most_active = limit_of(fd, "queue/max_active_zones");
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

void zone_map_write(struct json *json, const struct zone_map *map) {
  if (map == NULL)
    return;
  json_open(json, "zones", '{');
  json_number(json, "count", map->count);
  json_number(json, "in_order", map->in_order);
  json_number(json, "zone_bytes", map->zone_sectors * SECTOR_BYTES);
  json_number(json, "most_open", map->most_open);
  json_number(json, "most_active", map->most_active);
  json_close(json, '}');
}

/* Opens a zone, if it is not open, as far as the device's limits allow: for that it closes one
 * that was only opened by a write. Which one does not matter to the next requests' fate. */
static bool opens(struct zone_map *map, struct zone *zone, enum state wanted) {
  uint64_t open = map->in_state[OPENED_BY_WRITE] + map->in_state[OPENED];
  bool is_active = zone->state != EMPTY;
  if (zone->state == OPENED || zone->state == OPENED_BY_WRITE) {
    set_state(map, zone, zone->state == OPENED ? OPENED : wanted);
    return true;
  }
  if (!is_active && map->most_active > 0 && open + map->in_state[CLOSED] >= map->most_active)
    return false;
  if (map->most_open > 0 && open >= map->most_open) {
    struct zone *other = map->zones;
    while (other < map->zones + map->count &&
           !(other->is_in_order && other->state == OPENED_BY_WRITE))
      other++;
    if (other == map->zones + map->count)
      return false;
    set_state(map, other, CLOSED);
  }
  set_state(map, zone, wanted);
  return true;
}

/* A write within one zone. */
static enum zone_verdict write_part(struct zone_map *map, struct zone *zone, uint64_t sector,
                                    uint64_t length) {
  if (!zone->is_in_order)
    return ZONE_TAKES;
  if (sector != zone->next)
    return ZONE_REJECTS_PLACE;
  if (sector + length > zone->end)
    return ZONE_REJECTS_LENGTH;
  if (!opens(map, zone, OPENED_BY_WRITE))
    return ZONE_REJECTS_MORE;
  zone->next += length;
  if (zone->next == zone->end)
    set_state(map, zone, FULL);
  return ZONE_TAKES;
}

/* A write over the end of a zone fails as a whole, or when one of its parts does. */
static enum zone_verdict follow_write(struct zone_map *map, uint64_t sector, uint64_t length) {
  uint64_t number = sector / map->zone_sectors;
  uint64_t last = (sector + length - 1) / map->zone_sectors;
  if (number == last)
    return write_part(map, &map->zones[number], sector, length);
  bool fails = false;
  for (; number <= last && number < map->count; number++) {
    uint64_t end = (number + 1) * map->zone_sectors;
    uint64_t size = sector + length < end ? length : end - sector;
    bool is_rejected = map->is_cut
                           ? write_part(map, &map->zones[number], sector, size) != ZONE_TAKES
                           : map->zones[number].is_in_order;
    fails = fails || is_rejected;
    sector += size;
    length -= size;
  }
  return fails ? ZONE_REJECTS_LENGTH : ZONE_TAKES;
}

static void reset(struct zone_map *map, uint64_t number) {
  map->zones[number].next = number * map->zone_sectors;
  set_state(map, &map->zones[number], EMPTY);
}

static void reset_all(struct zone_map *map) {
  for (uint64_t i = 0; i < map->count; i++)
    reset(map, i);
}

/* One that was not written is empty again. */
static void close_zone(struct zone_map *map, uint64_t number) {
  struct zone *zone = &map->zones[number];
  bool is_open = zone->state == OPENED || zone->state == OPENED_BY_WRITE;
  if (is_open)
    set_state(map, zone, zone->next == number * map->zone_sectors ? EMPTY : CLOSED);
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
    reset(map, number);
    return zone->is_in_order ? ZONE_TAKES : ZONE_REJECTS_PLACE;
  case BLOCK_ZONE_RESET_ALL:
    reset_all(map);
    return ZONE_TAKES;
  case BLOCK_ZONE_FINISH:
    zone->next = zone->end;
    set_state(map, zone, FULL);
    return zone->is_in_order ? ZONE_TAKES : ZONE_REJECTS_PLACE;
  case BLOCK_ZONE_OPEN:
    if (zone->is_in_order && zone->state != FULL && !opens(map, zone, OPENED))
      return ZONE_REJECTS_MORE;
    return zone->is_in_order ? ZONE_TAKES : ZONE_REJECTS_PLACE;
  case BLOCK_ZONE_CLOSE:
    close_zone(map, number);
    return zone->is_in_order ? ZONE_TAKES : ZONE_REJECTS_PLACE;
  case BLOCK_READ:
  case BLOCK_FLUSH:
  case BLOCK_DISCARD:
    return ZONE_TAKES;
  }
  return ZONE_TAKES;
}

void zone_map_close(struct zone_map *map) { free(map); }
