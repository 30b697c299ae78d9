#include "play/block_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play/diag.h"
#include "play/transfer.h"

#define VERSION 3U
#define PLAIN_VERSION 2U /* without operations on zones */
#define PLAIN_OPERATIONS 5U
#define COUNT_MAX (UINT64_C(1) << 40)
#define EXTENTS_MAX 65536U
#define SECTOR_MAX (UINT64_C(1) << 53) /* so that a byte address fits a signed 64-bit number */

/* Every number of the file is little-endian; the structures are read as they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "plans are read on little-endian hosts");
_Static_assert(sizeof(struct block_record) == 48, "a record has 48 bytes");
_Static_assert(sizeof(struct block_target) == 224, "a target has 224 bytes");

/* A target of version 2. */
struct plain_target {
  char label[32];
  uint64_t needed_bytes;
  uint64_t counts[PLAIN_OPERATIONS];
  uint64_t bytes[PLAIN_OPERATIONS];
  uint64_t address_bits;
};
_Static_assert(sizeof(struct plain_target) == 128, "a target of version 2 has 128 bytes");

/* The first 192 bytes of the file. */
struct header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t record_bytes;
  uint32_t sector_bytes;
  uint64_t time_unit_ns;
  uint64_t record_count;
  uint64_t duration_ns;
  uint64_t records_offset;
  uint64_t index_offset;
  uint32_t index_stride; /* records in a block */
  uint32_t index_bytes;  /* of one entry */
  uint64_t target_offset;
  uint32_t target_count;
  uint32_t target_bytes; /* of one entry */
  uint64_t extent_offset;
  uint32_t extent_count;
  uint32_t extent_bytes; /* of one entry */
  uint64_t max_transfer_bytes;
  uint8_t trace_sha256[32];
  uint32_t level;
  uint32_t tables_crc32; /* of the tables of targets and extents */
  uint32_t index_crc32;  /* of the index */
  uint8_t reserved[32];
  uint32_t header_crc32; /* of the bytes before it */
};
_Static_assert(sizeof(struct header) == 192, "the header has 192 bytes");

#define EXTENT_BYTES 64U

struct index_entry {
  uint64_t first_ns; /* intended time of the block's first record */
  uint32_t crc32;    /* of the block's records */
  uint32_t count;    /* records in the block */
};

/* What is wrong with a header, NULL if nothing is: a file that is no plan, or of another layout. */
static const char *wrong_format(const struct header *header) {
  if (memcmp(header->magic, BLOCK_PLAN_MAGIC, sizeof header->magic) != 0)
    return "is not a plan: its first bytes are wrong";
  if (header->version != VERSION && header->version != PLAIN_VERSION)
    return "is a plan of another version; this program reads versions 2 and 3";
  if (header->header_bytes != sizeof *header ||
      header->record_bytes != sizeof(struct block_record) || header->sector_bytes != SECTOR_BYTES ||
      header->time_unit_ns != 1)
    return "has a header that does not fit its version";
  bool is_plain = header->version == PLAIN_VERSION;
  if (header->target_bytes !=
          (is_plain ? sizeof(struct plain_target) : sizeof(struct block_target)) ||
      header->extent_bytes != EXTENT_BYTES || header->index_bytes != sizeof(struct index_entry) ||
      header->index_stride != BLOCK_PLAN_STRIDE)
    return "has tables that do not fit its version";
  return NULL;
}

/* As above, for values that no plan of this layout can have. */
static const char *wrong_values(const struct header *header) {
  if (header->record_count > COUNT_MAX)
    return "claims more than 2^40 requests";
  if (header->duration_ns > INT64_MAX)
    return "claims to last longer than 292 years";
  if (header->target_count == 0 || header->target_count > BLOCK_PLAN_TARGETS_MAX)
    return "must have 1 to 64 targets";
  if (header->extent_count > EXTENTS_MAX)
    return "claims more than 65,536 extents";
  if (header->max_transfer_bytes > BLOCK_PLAN_TRANSFER_MAX)
    return "claims a transfer of more than 64 MiB";
  if (header->level > 1)
    return "names an unknown event level";
  return NULL;
}

/* The parts must follow each other without a gap and end where the file ends. */
static const char *wrong_places(const struct header *header, uint64_t file_bytes) {
  uint64_t blocks = (header->record_count + BLOCK_PLAN_STRIDE - 1) / BLOCK_PLAN_STRIDE;
  uint64_t index = sizeof *header + header->record_count * header->record_bytes;
  uint64_t targets = index + blocks * header->index_bytes;
  uint64_t extents = targets + (uint64_t)header->target_count * header->target_bytes;
  uint64_t end = extents + (uint64_t)header->extent_count * header->extent_bytes;
  if (header->records_offset != sizeof *header || header->index_offset != index ||
      header->target_offset != targets || header->extent_offset != extents)
    return "has parts that do not follow each other";
  if (file_bytes < end)
    return "is truncated: it is shorter than its header says";
  if (file_bytes > end)
    return "is longer than its header says";
  return NULL;
}

static const char *wrong_header(const struct block_plan *plan, const struct header *header,
                                uint64_t file_bytes) {
  const char *wrong = wrong_format(header);
  if (wrong == NULL && crc_update(&plan->crc, 0, header, offsetof(struct header, header_crc32)) !=
                           header->header_crc32)
    wrong = "has a damaged header: its checksum is wrong";
  if (wrong == NULL)
    wrong = wrong_values(header);
  if (wrong == NULL)
    wrong = wrong_places(header, file_bytes);
  return wrong;
}

static int reject(const struct block_plan *plan, const char *wrong) {
  diag("%s %s", plan->path, wrong);
  return -EINVAL;
}

/* Checksum of `bytes` bytes of the file from `offset`, after `crc`. */
static int checksum(const struct block_plan *plan, uint64_t offset, uint64_t bytes, uint32_t *crc) {
  unsigned char chunk[16384];
  while (bytes > 0) {
    size_t size = bytes < sizeof chunk ? (size_t)bytes : sizeof chunk;
    int rc = transfer_read(plan->fd, chunk, size, offset);
    if (rc != 0)
      return rc;
    *crc = crc_update(&plan->crc, *crc, chunk, size);
    offset += size;
    bytes -= size;
  }
  return 0;
}

static const char *wrong_target(const struct block_target *target) {
  size_t length = strnlen(target->label, sizeof target->label);
  if (length == 0 || length == sizeof target->label)
    return "has a target without a proper label";
  for (size_t i = 0; i < length; i++)
    if (target->label[i] <= ' ' || target->label[i] > '~' || target->label[i] == '=')
      return "has a target whose label is not plain text";
  if (target->needed_bytes > SECTOR_MAX * SECTOR_BYTES)
    return "has a target that needs an absurd size";
  return NULL;
}

/* Reads the table of targets, into that of this version. */
static int read_targets(struct block_plan *plan, const struct header *header) {
  struct plain_target plain[BLOCK_PLAN_TARGETS_MAX];
  size_t bytes = (size_t)plan->target_count * header->target_bytes;
  if (header->version != PLAIN_VERSION)
    return transfer_read(plan->fd, plan->targets, bytes, header->target_offset);
  int rc = transfer_read(plan->fd, plain, bytes, header->target_offset);
  for (uint32_t i = 0; i < plan->target_count && rc == 0; i++) {
    struct block_target *target = &plan->targets[i];
    memcpy(target->label, plain[i].label, sizeof target->label);
    target->needed_bytes = plain[i].needed_bytes;
    memcpy(target->counts, plain[i].counts, sizeof plain[i].counts);
    memcpy(target->bytes, plain[i].bytes, sizeof plain[i].bytes);
    target->address_bits = plain[i].address_bits;
  }
  return rc;
}

/* The tables are read and checked at once, since the whole run goes by them; records come later. */
static int read_tables(struct block_plan *plan, const struct header *header) {
  uint32_t tables = 0;
  uint32_t index = 0;
  uint64_t index_bytes = header->target_offset - header->index_offset;
  uint64_t table_bytes = (uint64_t)header->target_count * header->target_bytes +
                         (uint64_t)header->extent_count * header->extent_bytes;
  int rc = checksum(plan, header->index_offset, index_bytes, &index);
  if (rc == 0)
    rc = checksum(plan, header->target_offset, table_bytes, &tables);
  if (rc == 0)
    rc = read_targets(plan, header);
  if (rc != 0) {
    diag("cannot read %s: %s", plan->path, strerror(-rc));
    return rc;
  }
  if (tables != header->tables_crc32 || index != header->index_crc32)
    return reject(plan, "is damaged: the checksum of its tables is wrong");
  for (uint32_t i = 0; i < plan->target_count; i++) {
    const char *wrong = wrong_target(&plan->targets[i]);
    if (wrong != NULL)
      return reject(plan, wrong);
  }
  return 0;
}

/* Nothing of the header is believed before all of it is checked: offsets and counts come from
 * outside. */
static int read_header(struct block_plan *plan) {
  struct stat status;
  struct header header;
  if (fstat(plan->fd, &status) != 0) {
    int error = errno;
    diag("cannot look at %s: %s", plan->path, strerror(error));
    return -error;
  }
  if (!S_ISREG(status.st_mode))
    return reject(plan, "is not a regular file");
  if ((uint64_t)status.st_size < sizeof header)
    return reject(plan, "is too short to be a plan");
  int rc = transfer_read(plan->fd, &header, sizeof header, 0);
  if (rc != 0) {
    diag("cannot read %s: %s", plan->path, strerror(-rc));
    return rc;
  }
  const char *wrong = wrong_header(plan, &header, (uint64_t)status.st_size);
  if (wrong != NULL)
    return reject(plan, wrong);

  plan->record_count = header.record_count;
  plan->duration_ns = header.duration_ns;
  plan->records_offset = header.records_offset;
  plan->index_offset = header.index_offset;
  plan->max_transfer_bytes = header.max_transfer_bytes;
  plan->level = header.level;
  plan->operations = header.version == PLAIN_VERSION ? PLAIN_OPERATIONS : BLOCK_OPERATIONS;
  plan->target_count = header.target_count;
  memcpy(plan->trace_sha256, header.trace_sha256, sizeof plan->trace_sha256);
  return read_tables(plan, &header);
}

int block_plan_open(struct block_plan *plan, const char *path) {
  memset(plan, 0, sizeof *plan);
  plan->path = path;
  crc_table_init(&plan->crc);
  plan->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (plan->fd < 0) {
    int error = errno;
    diag("cannot open the plan %s: %s", path, strerror(error));
    return -error;
  }
  int rc = read_header(plan);
  if (rc != 0)
    block_plan_close(plan);
  return rc;
}

uint64_t block_plan_blocks(const struct block_plan *plan) {
  return (plan->record_count + BLOCK_PLAN_STRIDE - 1) / BLOCK_PLAN_STRIDE;
}

/* Data moves through memory, so its length is bounded; addresses alone may be long. */
static bool moves_data(enum block_operation operation) {
  const unsigned moving = 1U << BLOCK_READ | 1U << BLOCK_WRITE | 1U << BLOCK_ZONE_APPEND;
  return (moving >> operation & 1U) != 0;
}

/* What is wrong with the record at `position`, NULL if nothing is. */
static const char *wrong_record(const struct block_plan *plan, const struct block_record *record,
                                uint64_t position) {
  if (record->operation >= plan->operations)
    return "has an unknown operation";
  if ((record->flags & ~BLOCK_FLAGS) != 0)
    return "has unknown flags";
  if (record->target >= plan->target_count)
    return "names a target that the plan does not have";
  bool is_zone = block_operation_is_zone(record->operation);
  if ((record->operation == BLOCK_FLUSH || is_zone) != (record->length_sectors == 0))
    return is_zone                            ? "is an operation on a zone with a length"
           : record->operation == BLOCK_FLUSH ? "is a flush with a length"
                                              : "has no length";
  if (moves_data(record->operation) &&
      (uint64_t)record->length_sectors * SECTOR_BYTES > plan->max_transfer_bytes)
    return "is longer than the longest transfer of the header";
  uint64_t needed = plan->targets[record->target].needed_bytes / SECTOR_BYTES;
  if (record->sector > SECTOR_MAX || record->sector + record->length_sectors + is_zone > needed)
    return "lies beyond the size that the plan says its target needs";
  if (record->after > position || record->after > BLOCK_PLAN_AFTER_MAX)
    return "waits for a request that is not among those before it";
  return NULL;
}

static int check_block(const struct block_plan *plan, uint64_t block,
                       const struct block_record *records, uint32_t count, uint64_t *last_ns) {
  uint64_t before_ns = *last_ns;
  for (uint32_t i = 0; i < count; i++) {
    const char *wrong = wrong_record(plan, &records[i], block * BLOCK_PLAN_STRIDE + i);
    if (records[i].intended_ns < before_ns)
      wrong = "is earlier than the one before it: the plan is not sorted";
    else if (records[i].intended_ns > plan->duration_ns)
      wrong = "is later than the plan's duration";
    if (wrong != NULL) {
      diag("%s: record %" PRIu64 " %s", plan->path, block * BLOCK_PLAN_STRIDE + i, wrong);
      return -EINVAL;
    }
    before_ns = records[i].intended_ns;
  }
  *last_ns = before_ns;
  return 0;
}

int block_plan_block_time(const struct block_plan *plan, uint64_t block, uint64_t *first_ns) {
  struct index_entry entry;
  int rc = transfer_read(plan->fd, &entry, sizeof entry, plan->index_offset + block * sizeof entry);
  if (rc != 0)
    diag("cannot read the index of %s: %s", plan->path, strerror(-rc));
  *first_ns = rc == 0 ? entry.first_ns : 0;
  return rc;
}

/* The index entry vouches for the block, so that a long plan can be checked while it runs. */
int block_plan_read_block(const struct block_plan *plan, uint64_t block,
                          struct block_record *records, uint32_t *count, uint64_t *last_ns) {
  struct index_entry entry;
  uint64_t first = block * BLOCK_PLAN_STRIDE;
  uint64_t left = plan->record_count - first;
  *count = left < BLOCK_PLAN_STRIDE ? (uint32_t)left : BLOCK_PLAN_STRIDE;
  size_t bytes = *count * sizeof *records;

  int rc = transfer_read(plan->fd, &entry, sizeof entry, plan->index_offset + block * sizeof entry);
  if (rc == 0)
    rc = transfer_read(plan->fd, records, bytes, plan->records_offset + first * sizeof *records);
  if (rc != 0) {
    diag("cannot read block %" PRIu64 " of %s: %s", block, plan->path, strerror(-rc));
    return rc;
  }
  bool fits = entry.count == *count && entry.first_ns == records[0].intended_ns &&
              crc_update(&plan->crc, 0, records, bytes) == entry.crc32;
  if (!fits) {
    diag("%s is damaged: the checksum of block %" PRIu64 " is wrong", plan->path, block);
    return -EINVAL;
  }
  return check_block(plan, block, records, *count, last_ns);
}

/* As the columns of requests have it. */
const char *block_operation_name(enum block_operation operation) {
  switch (operation) {
  case BLOCK_READ:
    return "read";
  case BLOCK_WRITE:
    return "write";
  case BLOCK_FLUSH:
    return "flush";
  case BLOCK_DISCARD:
    return "discard";
  case BLOCK_WRITE_ZEROES:
    return "write_zeroes";
  case BLOCK_ZONE_APPEND:
    return "zone_append";
  case BLOCK_ZONE_RESET:
    return "zone_reset";
  case BLOCK_ZONE_RESET_ALL:
    return "zone_reset_all";
  case BLOCK_ZONE_OPEN:
    return "zone_open";
  case BLOCK_ZONE_CLOSE:
    return "zone_close";
  case BLOCK_ZONE_FINISH:
    return "zone_finish";
  }
  return "unknown";
}

void block_plan_close(struct block_plan *plan) {
  if (plan->fd >= 0)
    (void)close(plan->fd); /* only ever read */
  plan->fd = -1;
}
