/* Events of disk drivers in the kernel's text: NVMe, SCSI and UFS, whose commands become the
 * records of a request's issue and completion. Definitions: drivers/nvme/host/trace.h and
 * include/trace/events/{scsi,ufs}.h of the Linux kernel.
 *
 * Places are logical blocks, whose size no event says. A completion of NVMe names only a queue and
 * a tag: the commands in flight are kept. */
#ifndef TRACEKIT_READ_TEXT_DRIVER_H
#define TRACEKIT_READ_TEXT_DRIVER_H

#include "common/idmap.h"
#include "common/names.h"
#include "read/text.h"

#define DRIVER_MAJOR 0xfffu /* of the device numbers that disks of drivers get here */

/* A command in flight or done, by its controller, queue and tag. */
struct driver_command {
  struct record place; /* device, sector, bytes, category; category 0: no request */
  bool is_open;
};

struct drivers {
  struct names disks;       /* by minor number */
  struct names controllers; /* of NVMe */
  struct idmap index;       /* controller, queue and tag to command */
  struct driver_command *commands;
  uint32_t count, capacity;
};

/* What a line says, in its own units. */
struct driver_place {
  const char *disk; /* not ended */
  size_t disk_bytes;
  uint64_t category, block, blocks;
  uint64_t bytes; /* where it says them; blocks is 0 then */
};

/* The layer of which the format reads the events. */
static inline enum text_layer text_layer(enum text_format format) {
  return format > TEXT_KERNEL ? LAYER_NVME + (format - TEXT_NVME) : LAYER_BLOCK;
}

/* Which layer of the kernel's an event is of, by its name. */
enum text_layer driver_layer(const char *name, size_t length);

/* Reads the event of this name, of which `at` are the fields. */
enum text_status driver_event(struct text *text, const char *name, const char *at, const char *end,
                              struct record *out);
enum text_status driver_nvme(struct text *text, const char *name, const char *at, const char *end,
                             struct record *out);
enum text_status driver_scsi(struct text *text, const char *name, const char *at, const char *end,
                             struct record *out);
enum text_status driver_ufs(struct text *text, const char *name, const char *at, const char *end,
                            struct record *out);

/* Fills device, place, length and category into the record of a command. TEXT_PASSED for one that
 * is no request or whose place is not told. */
enum text_status driver_place(struct text *text, const struct driver_place *place,
                              struct record *out);

/* Gives what stands behind the key, such as " qid="; NULL when the line has it not. */
const char *driver_value(const char *at, const char *end, const char *key);

/* Reads the number there, decimal or hexadecimal with 0x. */
bool driver_number(const char *at, const char *end, const char *key, uint64_t *out);

/* Reads bytes of two hexadecimal digits, between blanks or commas; returns how many, at most
 * `capacity`. */
size_t driver_bytes(const char *at, uint8_t *out, size_t capacity);

/* Frees what the events of drivers needed; NULL is fine. */
void drivers_close(struct drivers *drivers);

#endif
