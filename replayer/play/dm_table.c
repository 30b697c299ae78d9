#include "play/dm_table.h"

#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define TABLE_BYTES 262144U
#define PIECES_MAX 4096U

/* Sectors of the device below. */
struct piece {
  uint64_t first;
  uint64_t end;
};

/* What one device uses of the device below. */
struct use {
  bool is_known;        /* every line that names the device was understood */
  bool is_thin;         /* a thin volume: the pool below keeps volumes apart by their numbers */
  unsigned volume;      /* its number in the pool */
  uint32_t count;       /* of the pieces */
  struct piece *pieces; /* PIECES_MAX */
};

/* A device number as the kernel's ioctls take it. */
static uint64_t encoded(dev_t device) {
  uint64_t minor_number = minor(device);
  return (minor_number & 0xff) | (uint64_t)major(device) << 8 |
         (minor_number & ~UINT64_C(0xff)) << 12;
}

/* Takes one line of a table, whose parameters name the device below as `name`. */
static void take_line(const struct dm_target_spec *line, const char *parameters, const char *name,
                      struct use *use) {
  char words[512];
  char device[32] = "";
  unsigned long long first = 0;
  unsigned stripes = 1;
  (void)snprintf(words, sizeof words, " %s ", parameters);
  if (strstr(words, name) == NULL)
    return;
  if (strcmp(line->target_type, "thin") == 0) {
    use->is_thin = sscanf(parameters, "%31s %u", device, &use->volume) == 2;
    use->is_known = use->is_known && use->is_thin;
    return;
  }
  const char *at = parameters;
  bool is_striped = strcmp(line->target_type, "striped") == 0;
  int skipped = 0;
  if (is_striped && (sscanf(at, "%u %*u %n", &stripes, &skipped) != 1 || stripes == 0))
    stripes = 0;
  at += skipped;
  bool is_plain = is_striped || strcmp(line->target_type, "linear") == 0;
  use->is_known = use->is_known && is_plain && stripes > 0 && strlen(parameters) < sizeof words - 3;
  for (unsigned i = 0; i < stripes && use->is_known; i++) {
    int length = 0;
    if (sscanf(at, "%31s %llu %n", device, &first, &length) != 2 || use->count == PIECES_MAX) {
      use->is_known = false;
      return;
    }
    at += length;
    (void)snprintf(words, sizeof words, " %s ", device);
    if (strcmp(words, name) == 0)
      use->pieces[use->count++] = (struct piece){first, first + line->length / stripes};
  }
}

/* Reads the table of a device. */
static void read_use(int control, dev_t device, const char *name, char *table, struct use *use) {
  struct dm_ioctl *head = (struct dm_ioctl *)table;
  memset(head, 0, sizeof *head);
  head->version[0] = DM_VERSION_MAJOR;
  head->data_size = TABLE_BYTES;
  head->data_start = sizeof *head;
  head->dev = encoded(device);
  head->flags = DM_STATUS_TABLE_FLAG;
  use->is_known = ioctl(control, DM_TABLE_STATUS, head) == 0 &&
                  (head->flags & DM_BUFFER_FULL_FLAG) == 0 && head->target_count > 0;
  uint32_t at = head->data_start;
  for (uint32_t i = 0; i < head->target_count && use->is_known; i++) {
    const struct dm_target_spec *line = (const struct dm_target_spec *)(table + at);
    take_line(line, (const char *)(line + 1), name, use);
    at = head->data_start + line->next; /* counted from the first line */
  }
  /* It does stand on the device below: a table that does not name it names it in another way. */
  use->is_known = use->is_known && (use->is_thin || use->count > 0);
}

static bool are_apart(const struct use *one, const struct use *other) {
  if (!one->is_known || !other->is_known || one->is_thin != other->is_thin)
    return false;
  if (one->is_thin)
    return one->volume != other->volume;
  for (uint32_t i = 0; i < one->count; i++)
    for (uint32_t n = 0; n < other->count; n++)
      if (one->pieces[i].first < other->pieces[n].end &&
          other->pieces[n].first < one->pieces[i].end)
        return false;
  return true;
}

bool dm_table_are_apart(dev_t one, dev_t other, dev_t below) {
  char name[48];
  int control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
  if (control < 0)
    return false;
  (void)snprintf(name, sizeof name, " %u:%u ", major(below), minor(below));
  char *table = malloc(TABLE_BYTES);
  struct use first = {.pieces = malloc(PIECES_MAX * sizeof(struct piece))};
  struct use second = {.pieces = malloc(PIECES_MAX * sizeof(struct piece))};
  bool result = table != NULL && first.pieces != NULL && second.pieces != NULL;
  if (result) {
    read_use(control, one, name, table, &first);
    read_use(control, other, name, table, &second);
    result = are_apart(&first, &second);
  }
  free(second.pieces);
  free(first.pieces);
  free(table);
  (void)close(control); /* only asked */
  return result;
}
