/* Commands of NVMe as the driver traces them:
 *
 *   nvme_setup_cmd: nvme0: disk=nvme0n1, qid=1, cmdid=5, nsid=1, ..., cmd=(nvme_cmd_read slba=8,
 * ...) nvme_complete_rq: nvme0: disk=nvme0n1, qid=1, cmdid=5, res=0x0, retries=0, ..., status=0x0
 *
 * Tools that cannot print them so print the fields: [FAILED TO PARSE] disk=nvme0n1 ctrl_id=0 qid=1
 * opcode=2 ... cid=5 nsid=1 ... cdw10=ARRAY[08, 00, ...]. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "read/text_driver.h"
#include "read/text_scan.h"

#define TAG_MASK 0xfffu /* from Linux 5.14 on what is above counts the tag's uses */
#define TAG_BITS 12
#define MOST_QUEUE 0xfffu
#define MOST_CONTROLLERS 256
#define COMMAND_WORDS 16 /* bytes of the command's last words that are read */
#define CONTROL_FUA 0x4000u
#define HINT_READAHEAD 7u
#define NAME_BYTES 40

/* The commands that are requests with a place, by number and name, and the flush. */
static const struct {
  uint64_t category;
  const char *name;
  uint8_t opcode;
} commands[] = {
    {CATEGORY_READ, "nvme_cmd_read", 0x02},
    {CATEGORY_WRITE, "nvme_cmd_write", 0x01},
    {CATEGORY_WRITE, "nvme_cmd_write_zeroes", 0x08},
    {CATEGORY_WRITE | CATEGORY_ZONE_APPEND, "nvme_cmd_zone_append", 0x7d},
    {CATEGORY_READ | CATEGORY_FLUSH, "nvme_cmd_flush", 0x00},
};
static const char dsm_name[] = "nvme_cmd_dsm";
#define DSM_OPCODE 0x09u

static uint64_t little_endian(const uint8_t *bytes, unsigned count) {
  uint64_t value = 0;
  while (count-- > 0)
    value = value << 8 | bytes[count];
  return value;
}

/* Gives the category of the command of this name, or of the number where it has none; 0 for one
 * that is no request, or that discards: the line does not say where. */
static uint64_t find_command(const char *name, uint64_t number, bool *has_place) {
  size_t length = 0;
  while (name && name[length] != ' ' && name[length] != ')' && name[length] != '\n')
    length++;
  for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
    if (name ? strlen(commands[i].name) == length && !memcmp(commands[i].name, name, length)
             : commands[i].opcode == number)
      return commands[i].category;
  *has_place =
      name ? length != strlen(dsm_name) || memcmp(dsm_name, name, length) : number != DSM_OPCODE;
  return 0;
}

/* Reads what the command is and where; `has_place` is cleared where the line does not say it.
 * Returns false when a number is missing. */
static bool read_command(const char *at, const char *end, struct driver_place *out,
                         bool *has_place) {
  uint64_t opcode = 0, control = 0, hint = 0;
  const char *name = driver_value(at, end, " cmd=(");
  if (!name && !driver_number(at, end, " opcode=", &opcode))
    return false;
  out->category = find_command(name, opcode, has_place);
  if (!out->category || out->category == (CATEGORY_READ | CATEGORY_FLUSH))
    return true;
  if (name) {
    if (!driver_number(name, end, " slba=", &out->block) ||
        !driver_number(name, end, " len=", &out->blocks))
      return false;
    (void)driver_number(name, end, " ctrl=", &control);
    (void)driver_number(name, end, " dsmgmt=", &hint);
  } else {
    uint8_t words[COMMAND_WORDS];
    const char *array = driver_value(at, end, " cdw10=ARRAY[");
    if (!array) { /* printed as a string, which ended at the first zero */
      *has_place = false;
      out->category = 0;
      return true;
    }
    if (driver_bytes(array, words, COMMAND_WORDS) < COMMAND_WORDS)
      return false;
    out->block = little_endian(words, 8);
    out->blocks = little_endian(words + 8, 2);
    control = little_endian(words + 10, 2);
    hint = little_endian(words + 12, 4);
  }
  out->blocks++; /* it counts from 0 */
  out->category |= control & CONTROL_FUA ? CATEGORY_FUA : 0;
  out->category |= hint == HINT_READAHEAD ? CATEGORY_AHEAD : 0;
  return true;
}

/* The number of controller, queue and tag together. Returns false when one is missing or too large;
 * `queue` 0 is that of the controller's own commands. */
static bool read_key(struct text *text, const char *at, const char *end, uint64_t *queue,
                     uint32_t *out) {
  uint64_t tag = 0, controller = 0;
  if (!driver_number(at, end, " qid=", queue) || *queue > MOST_QUEUE ||
      !(driver_number(at, end, " cmdid=", &tag) || driver_number(at, end, " cid=", &tag)))
    return false;
  const char *number = at + sizeof("nvme") - 1;
  bool is_named = begins_with(at, "nvme") && scan_number(&number, &controller);
  if (!is_named && !driver_number(at, end, " ctrl_id=", &controller))
    return false;
  int32_t index =
      names_add(&text->drivers->controllers, (const char *)&controller, sizeof(controller));
  if (index < 0 || index >= MOST_CONTROLLERS)
    return false;
  *out = (uint32_t)index << 24 | (uint32_t)*queue << TAG_BITS | (uint32_t)(tag & TAG_MASK);
  return true;
}

/* The name of the disk, or one of controller and namespace, as older kernels print them. */
static void read_disk(const char *at, const char *end, char made[NAME_BYTES],
                      struct driver_place *out) {
  uint64_t number = 0, space = 0;
  out->disk = driver_value(at, end, " disk=");
  if (out->disk) {
    while (out->disk[out->disk_bytes] != ',' && !is_blank(out->disk[out->disk_bytes]) &&
           out->disk[out->disk_bytes] != '\n')
      out->disk_bytes++;
    return;
  }
  const char *digits = at + sizeof("nvme") - 1;
  if (!scan_number(&digits, &number))
    (void)driver_number(at, end, " ctrl_id=", &number);
  (void)driver_number(at, end, " nsid=", &space);
  snprintf(made, NAME_BYTES, "nvme%un%u", (unsigned)number, (unsigned)space);
  out->disk = made;
  out->disk_bytes = strlen(made);
}

/* The command of the key, made when it is new; NULL without memory. */
static struct driver_command *find_open(struct drivers *drivers, uint32_t key, bool is_made) {
  const uint32_t *known = idmap_get(&drivers->index, key);
  if (known || !is_made)
    return known ? &drivers->commands[*known] : NULL;
  if (drivers->count == drivers->capacity) {
    uint32_t capacity = drivers->capacity ? drivers->capacity * 2 : 64;
    struct driver_command *bigger = realloc(drivers->commands, capacity * sizeof(*bigger));
    if (!bigger)
      return NULL;
    drivers->commands = bigger;
    drivers->capacity = capacity;
  }
  if (idmap_set(&drivers->index, key, drivers->count))
    return NULL;
  return &drivers->commands[drivers->count++];
}

static enum text_status start(struct text *text, const char *at, const char *end, uint32_t key,
                              struct record *out) {
  struct driver_place place = {0};
  char made[NAME_BYTES];
  bool has_place = true;
  if (!read_command(at, end, &place, &has_place))
    return TEXT_BAD;
  read_disk(at, end, made, &place);
  out->action = ACTION_ISSUE;
  enum text_status status = driver_place(text, &place, out);
  if (status == TEXT_BAD)
    return status;
  struct driver_command *open = find_open(text->drivers, key, true);
  if (!open) {
    text->has_no_memory = true;
    return TEXT_BAD;
  }
  *open = (struct driver_command){.place = *out, .is_open = true};
  text->unplaced += !has_place;
  return status;
}

static enum text_status complete(struct text *text, const char *at, const char *end, uint32_t key,
                                 struct record *out) {
  struct driver_command *open = find_open(text->drivers, key, false);
  uint64_t status = 0;
  if (!driver_number(at, end, " status=", &status))
    return TEXT_BAD;
  if (!open || !open->is_open) {
    text->orphans++;
    return TEXT_PASSED;
  }
  open->is_open = false;
  out->action = ACTION_COMPLETE;
  out->device = open->place.device;
  out->sector = open->place.sector;
  out->bytes = open->place.bytes;
  out->category = open->place.category;
  out->error = status ? (uint16_t)-EIO : 0;
  return out->category ? TEXT_EVENT : TEXT_PASSED;
}

enum text_status driver_nvme(struct text *text, const char *name, const char *at, const char *end,
                             struct record *out) {
  uint64_t queue = 0;
  uint32_t key = 0;
  if (!read_key(text, at, end, &queue, &key))
    return TEXT_BAD;
  if (queue == 0)
    return TEXT_PASSED;
  return begins_with(name, "nvme_setup") ? start(text, at, end, key, out)
                                         : complete(text, at, end, key, out);
}
