/* Commands of SCSI and UFS as the drivers trace them:
 *
 *   scsi_dispatch_cmd_start: host_no=2 channel=0 id=0 lun=0 ... cmnd=(READ_10 lba=8 ... raw=28 00
 * ...) scsi_dispatch_cmd_done: the same, and result=(driver=DRIVER_OK host=DID_OK ... status=...)
 *   ufshcd_command: send_req: 1d84000.ufshc: tag: 7, ..., size: 4096, ..., LBA: 8, opcode: 0x28
 * (...)
 *
 * Of SCSI the command itself is read, its raw bytes: the words before it differ by kernel. Tools
 * that cannot print them print cmnd=ARRAY[28, 00, ...]. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "read/text_driver.h"
#include "read/text_scan.h"

#define NAME_BYTES 64
#define MOST_COMMAND 32 /* bytes */
#define UNMAP 0x42u
#define READ_6 0x08u
#define WRITE_6 0x0au
#define WRITE_SAME 0x41u
#define WRITE_SAME_16 0x93u
#define VARIABLE_LENGTH 0x7fu
#define BIT_FUA 0x08u /* of the byte behind the operation; to unmap, of WRITE_SAME */
#define FLUSH (CATEGORY_READ | CATEGORY_FLUSH)

/* Where a command has its place and its length, big-endian. */
struct layout {
  uint64_t category;
  uint8_t opcode, block, block_bytes, blocks, blocks_bytes, size;
};

static const struct layout layouts[] = {
    {CATEGORY_READ, 0x28, 2, 4, 7, 2, 10},
    {CATEGORY_WRITE, 0x2a, 2, 4, 7, 2, 10},
    {CATEGORY_READ, 0x88, 2, 8, 10, 4, 16},
    {CATEGORY_WRITE, 0x8a, 2, 8, 10, 4, 16},
    {CATEGORY_READ, 0xa8, 2, 4, 6, 4, 12},
    {CATEGORY_WRITE, 0xaa, 2, 4, 6, 4, 12},
    {CATEGORY_READ, READ_6, 1, 3, 4, 1, 6},
    {CATEGORY_WRITE, WRITE_6, 1, 3, 4, 1, 6},
    {CATEGORY_WRITE, 0x2e, 2, 4, 7, 2, 10},
    {CATEGORY_WRITE, 0xae, 2, 4, 6, 4, 12},
    {CATEGORY_WRITE, 0x8e, 2, 8, 10, 4, 16},
    {CATEGORY_WRITE, WRITE_SAME, 2, 4, 7, 2, 10},
    {CATEGORY_WRITE, WRITE_SAME_16, 2, 8, 10, 4, 16},
    {FLUSH, 0x35, 0, 0, 0, 0, 1},
    {FLUSH, 0x91, 0, 0, 0, 0, 1},
};

/* Commands of 32 bytes, by their service action. */
static const struct layout long_layouts[] = {{CATEGORY_READ, 0x09, 12, 8, 28, 4, 32},
                                             {CATEGORY_WRITE, 0x0b, 12, 8, 28, 4, 32},
                                             {CATEGORY_WRITE, 0x0d, 12, 8, 28, 4, 32}};

static const struct layout *find_layout(const uint8_t *command, size_t size) {
  bool is_long = command[0] == VARIABLE_LENGTH;
  const struct layout *known = is_long ? long_layouts : layouts;
  size_t count = is_long ? sizeof(long_layouts) / sizeof(*known) : sizeof(layouts) / sizeof(*known);
  if (is_long && (size < 10 || command[8] != 0))
    return NULL;
  for (size_t i = 0; i < count; i++)
    if (known[i].opcode == command[is_long ? 9 : 0])
      return &known[i];
  return NULL;
}

static uint64_t big_endian(const uint8_t *bytes, unsigned count) {
  uint64_t value = 0;
  for (unsigned i = 0; i < count; i++)
    value = value << 8 | bytes[i];
  return value;
}

/* Reads the command's bytes. Returns false when they are cut; category 0 is no request. */
static bool read_command(const uint8_t *command, size_t size, struct driver_place *out) {
  const struct layout *layout = find_layout(command, size);
  if (!layout)
    return true;
  if (size < layout->size)
    return false;
  out->category = layout->category;
  if (layout->category == FLUSH)
    return true;
  out->block = big_endian(command + layout->block, layout->block_bytes);
  out->blocks = big_endian(command + layout->blocks, layout->blocks_bytes);
  bool is_short = layout->size == 6;
  if (is_short) {
    out->block &= 0x1fffff;
    out->blocks += out->blocks ? 0 : 256;
    return true;
  }
  bool is_same = command[0] == WRITE_SAME || command[0] == WRITE_SAME_16 ||
                 (layout->size == 32 && layout->opcode == 0x0d);
  if (command[layout->size == 32 ? 10 : 1] & BIT_FUA)
    out->category |= is_same ? CATEGORY_DISCARD : CATEGORY_FUA;
  return true;
}

/* Says whether the result is none, printed as a name or as a number. */
static bool is_good(const char *at, const char *end, const char *key, const char *name) {
  const char *found = driver_value(at, end, key);
  return !found || begins_with(found, name) ||
         (found[0] == '0' && !is_digit(found[1]) &&
          (found[1] != 'x' || (found[2] == '0' && hex_digit(found[3]) == 16)));
}

static bool has_failed(const char *at, const char *end) {
  return !is_good(at, end, " host=", "DID_OK") || !is_good(at, end, " status=", "SAM_STAT_GOOD") ||
         !is_good(at, end, " result=", "(");
}

/* Names the disk by the four numbers that it has, as in 2:0:0:0. */
static bool read_disk(const char *at, const char *end, char out[NAME_BYTES]) {
  static const char *const keys[] = {"host_no=", " channel=", " id=", " lun="};
  uint64_t numbers[4];
  for (unsigned i = 0; i < 4; i++)
    if (!driver_number(at, end, keys[i], &numbers[i]))
      return false;
  snprintf(out, NAME_BYTES, "%u:%u:%u:%u", (unsigned)numbers[0], (unsigned)numbers[1],
           (unsigned)numbers[2], (unsigned)numbers[3]);
  return true;
}

enum text_status driver_scsi(struct text *text, const char *name, const char *at, const char *end,
                             struct record *out) {
  char disk[NAME_BYTES];
  if (!read_disk(at, end, disk))
    return TEXT_BAD;
  uint8_t command[MOST_COMMAND];
  const char *raw = driver_value(at, end, " raw=");
  if (!raw)
    raw = driver_value(at, end, " cmnd=ARRAY[");
  size_t size = raw ? driver_bytes(raw, command, sizeof(command)) : 0;
  bool is_start = begins_with(name, "scsi_dispatch_cmd_start");
  struct driver_place place = {.disk = disk, .disk_bytes = strlen(disk)};
  uint64_t opcode = 0;
  if (!raw && driver_number(at, end, " opcode=", &opcode)) {
    /* Its bytes were printed as a string, which ended at the first zero. */
    command[0] = (uint8_t)opcode;
    const struct layout *layout = find_layout(command, 1);
    place.category = layout && layout->category == FLUSH ? FLUSH : 0;
    text->unplaced += is_start && layout && layout->category != FLUSH;
  } else if (size == 0 || !read_command(command, size, &place)) {
    return TEXT_BAD;
  }
  text->unplaced += is_start && command[0] == UNMAP;
  out->action = is_start ? ACTION_ISSUE : ACTION_COMPLETE;
  if (begins_with(name, "scsi_dispatch_cmd_error"))
    out->action = ACTION_REQUEUE;
  if (out->action == ACTION_COMPLETE && has_failed(at, end))
    out->error = (uint16_t)-EIO;
  return driver_place(text, &place, out);
}

/* "send_req: 1d84000.ufshc: tag: ..."; in Linux 4.4 "1d84000.ufshc: send: ...". */
static enum trace_action ufs_step(const char *word, size_t length) {
  static const struct {
    const char *name;
    enum trace_action action;
  } steps[] = {{"send_req", ACTION_ISSUE},
               {"send", ACTION_ISSUE},
               {"complete_rsp", ACTION_COMPLETE},
               {"complete", ACTION_COMPLETE}};
  for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
    if (strlen(steps[i].name) == length && memcmp(steps[i].name, word, length) == 0)
      return steps[i].action;
  return 0;
}

enum text_status driver_ufs(struct text *text, const char *name, const char *at, const char *end,
                            struct record *out) {
  (void)name;
  static const char tag[] = ": tag: ";
  const char *last = memmem(at, (size_t)(end - at), tag, sizeof(tag) - 1);
  const char *middle = last ? memmem(at, (size_t)(last - at), ": ", 2) : NULL;
  if (!middle)
    return TEXT_BAD;
  const char *disk = middle + 2, *step = at;
  size_t disk_bytes = (size_t)(last - disk), step_bytes = (size_t)(middle - at);
  if (!ufs_step(step, step_bytes) && ufs_step(disk, disk_bytes)) {
    disk = at;
    step = middle + 2;
    disk_bytes = step_bytes;
    step_bytes = (size_t)(last - step);
  }
  enum trace_action action = ufs_step(step, step_bytes);
  uint64_t opcode = 0;
  if (!action)
    return TEXT_PASSED;
  if (!driver_number(last, end, " opcode: ", &opcode) || opcode > UINT8_MAX)
    return TEXT_BAD;
  uint8_t command[MOST_COMMAND] = {(uint8_t)opcode};
  const struct layout *layout = find_layout(command, 1);
  struct driver_place place = {.disk = disk, .disk_bytes = disk_bytes};
  place.category = opcode == UNMAP ? CATEGORY_WRITE | CATEGORY_DISCARD
                   : layout        ? layout->category
                                   : 0;
  out->action = (uint16_t)action;
  /* What the driver does not know is -1: a command without a place. */
  if (place.category != FLUSH && place.category &&
      (!driver_number(last, end, " size: ", &place.bytes) ||
       !driver_number(last, end, " LBA: ", &place.block))) {
    text->unplaced += action == ACTION_ISSUE;
    return TEXT_PASSED;
  }
  return driver_place(text, &place, out);
}
