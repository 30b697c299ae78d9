#include "read/text_driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "read/text_scan.h"
#include "read/text_values.h"

#define SECTOR_BYTES (1u << SECTOR_SHIFT)
#define END_BLOCK (1ULL << 54)
#define FEW_BLOCKS 8u /* 4 KiB of the smallest blocks */

static const struct {
  const char *name;
  enum text_layer layer;
} events[] = {
    {"nvme_setup_cmd", LAYER_NVME},          {"nvme_complete_rq", LAYER_NVME},
    {"scsi_dispatch_cmd_start", LAYER_SCSI}, {"scsi_dispatch_cmd_done", LAYER_SCSI},
    {"scsi_dispatch_cmd_error", LAYER_SCSI}, {"ufshcd_command", LAYER_UFS},
};

/* Of file systems: by what their names begin with. */
static const struct {
  const char *name;
  enum text_layer layer;
} systems[] = {
    {"f2fs_", LAYER_F2FS},   {"ext4_", LAYER_EXT4}, {"xfs_", LAYER_XFS},
    {"btrfs_", LAYER_BTRFS}, {"jbd2_", LAYER_JBD2},
};

enum text_layer driver_layer(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
    if (strlen(events[i].name) == length && memcmp(events[i].name, name, length) == 0)
      return events[i].layer;
  for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++)
    if (begins_with(name, systems[i].name))
      return systems[i].layer;
  return LAYER_OTHER;
}

enum text_status driver_event(struct text *text, const char *name, const char *at, const char *end,
                              struct record *out) {
  static enum text_status (*const readers[LAYER_END])(struct text *, const char *, const char *,
                                                      const char *, struct record *) = {
      [LAYER_NVME] = driver_nvme, [LAYER_SCSI] = driver_scsi, [LAYER_UFS] = driver_ufs};
  if (!text->drivers)
    text->drivers = calloc(1, sizeof(*text->drivers));
  if (!text->drivers) {
    text->has_no_memory = true;
    return TEXT_BAD;
  }
  return readers[text_layer(text->format)](text, name, at, end, out);
}

const char *driver_value(const char *at, const char *end, const char *key) {
  size_t length = strlen(key);
  const char *found = memmem(at, (size_t)(end - at), key, length);
  return found ? skip_blanks(found + length) : NULL;
}

bool driver_number(const char *at, const char *end, const char *key, uint64_t *out) {
  int64_t value = 0;
  const char *found = driver_value(at, end, key);
  bool is_good = found && number_integer(&found, end, &value);
  *out = (uint64_t)value;
  return is_good;
}

size_t driver_bytes(const char *at, uint8_t *out, size_t capacity) {
  size_t count = 0;
  while (count < capacity && hex_digit(at[0]) < 16 && hex_digit(at[1]) < 16) {
    out[count++] = (uint8_t)(hex_digit(at[0]) << 4 | hex_digit(at[1]));
    at += 2;
    at = skip_blanks(at + (*at == ','));
  }
  return count;
}

/* A length that is no whole 4 KiB, were blocks as small as they can be, speaks for larger ones. */
static void count_blocks(struct text *text, const struct driver_place *place, uint64_t blocks) {
  text->commands++;
  text->fine_commands += place->block % FEW_BLOCKS || blocks % FEW_BLOCKS;
}

enum text_status driver_place(struct text *text, const struct driver_place *place,
                              struct record *out) {
  uint64_t unit = text->block_bytes ? text->block_bytes : SECTOR_BYTES;
  uint64_t bytes = place->blocks ? place->blocks * unit : place->bytes;
  bool is_flush =
      (place->category & (CATEGORY_FLUSH | CATEGORY_READ)) == (CATEGORY_FLUSH | CATEGORY_READ);
  if (!place->category || (bytes == 0 && !is_flush))
    return TEXT_PASSED;
  if (place->block > END_BLOCK / (unit / SECTOR_BYTES) || place->blocks > UINT32_MAX / unit ||
      bytes > UINT32_MAX)
    return TEXT_BAD;
  int32_t disk = names_add(&text->drivers->disks, place->disk, place->disk_bytes);
  if (disk < 0 || disk >= 1 << MINOR_BITS) {
    text->has_no_memory = disk == -ENOMEM;
    return TEXT_BAD;
  }
  out->device = DRIVER_MAJOR << MINOR_BITS | (uint32_t)disk;
  out->sector = place->block * (unit / SECTOR_BYTES);
  out->bytes = (uint32_t)bytes;
  out->category = place->category;
  if (!is_flush && out->action == ACTION_ISSUE)
    count_blocks(text, place, place->blocks ? place->blocks : FEW_BLOCKS);
  return TEXT_EVENT;
}

void drivers_close(struct drivers *drivers) {
  if (!drivers)
    return;
  names_clear(&drivers->disks);
  names_clear(&drivers->controllers);
  idmap_clear(&drivers->index);
  free(drivers->commands);
  free(drivers);
}
