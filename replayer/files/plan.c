#include "files/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/circle.h"
#include "files/rules.h"
#include "replay/crc.h"
#include "replay/diag.h"

#define MAGIC "TKFILE\r\n"
#define VERSION 1U
#define NAMES_MAX (UINT64_C(1) << 32)
#define IS_REPEATABLE 1U
#define HAS_MEDIUM 2U

/* Every number of the file is little-endian; the structures are read as they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "plans are read on little-endian hosts");
_Static_assert(sizeof(struct plan_record) == 64, "a record has 64 bytes");
_Static_assert(sizeof(struct plan_thread) == 24, "a thread has 24 bytes");
_Static_assert(sizeof(struct plan_step) == 32, "a step has 32 bytes");
_Static_assert(sizeof(struct plan_file) == 32, "a file has 32 bytes");

/* The first 128 bytes of the file. */
struct header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t record_bytes;
  uint32_t thread_bytes;
  uint32_t step_bytes;
  uint32_t file_bytes;
  uint64_t record_count;
  uint64_t duration_ns;
  uint64_t name_bytes;
  uint32_t file_count;
  uint32_t thread_count;
  uint32_t step_count;
  uint32_t handle_count;
  uint64_t max_transfer_bytes;
  uint64_t needed_bytes;
  uint32_t flags; /* or'ed IS_REPEATABLE, HAS_MEDIUM */
  uint32_t records_crc32;
  uint32_t tables_crc32; /* of all that follows the records */
  uint32_t read_line_ns; /* this and the next: with HAS_MEDIUM */
  uint32_t write_line_ns;
  uint8_t reserved[16];
  uint32_t header_crc32; /* of the bytes before it */
};
_Static_assert(sizeof(struct header) == 128, "the header has 128 bytes");

static int refuse(const char *path, const char *wrong) {
  diag("%s %s", path, wrong);
  return -EINVAL;
}

/* What is wrong with a header, NULL if nothing is. */
static const char *wrong_format(const struct header *header, const struct crc_table *crc) {
  if (memcmp(header->magic, MAGIC, sizeof header->magic) != 0)
    return "is no file plan: its first bytes are wrong";
  if (header->version != VERSION)
    return "is a file plan of another version; this program reads version 1";
  if (crc_update(crc, 0, header, offsetof(struct header, header_crc32)) != header->header_crc32)
    return "has a damaged header: its checksum is wrong";
  if (header->header_bytes != sizeof *header ||
      header->record_bytes != sizeof(struct plan_record) ||
      header->thread_bytes != sizeof(struct plan_thread) ||
      header->step_bytes != sizeof(struct plan_step) ||
      header->file_bytes != sizeof(struct plan_file))
    return "has a header that does not fit its version";
  return NULL;
}

static const char *wrong_values(const struct header *header, uint64_t file_bytes) {
  if (header->record_count >= PLAN_NONE || header->file_count == PLAN_NONE ||
      header->name_bytes > NAMES_MAX)
    return "claims more records, files or names than a file plan can have";
  if (header->thread_count == 0 || header->thread_count > PLAN_THREADS_MAX)
    return "must have 1 to 4096 threads";
  if (header->step_count > PLAN_NO_STEP || header->handle_count > PLAN_HANDLES_MAX)
    return "claims more than 255 steps or 2^24 handles";
  if (header->max_transfer_bytes > PLAN_TRANSFER_MAX)
    return "claims a transfer of more than 64 MiB";
  if (header->duration_ns > INT64_MAX || header->flags > (IS_REPEATABLE | HAS_MEDIUM))
    return "has an absurd duration or unknown flags";
  bool is_slow = (header->flags & HAS_MEDIUM) != 0;
  if (is_slow &&
      (header->read_line_ns > PLAN_LINE_NS_MAX || header->write_line_ns > PLAN_LINE_NS_MAX))
    return "has a medium that adds more than a millisecond to 64 bytes";
  uint64_t end = sizeof *header + header->record_count * header->record_bytes +
                 (uint64_t)header->thread_count * header->thread_bytes +
                 (uint64_t)header->step_count * header->step_bytes +
                 (uint64_t)header->file_count * header->file_bytes + header->name_bytes;
  if (file_bytes < end)
    return "is truncated: it is shorter than its header says";
  return file_bytes > end ? "is longer than its header says" : NULL;
}

/* Points into the mapping; returns where the tables begin. */
static const char *lay_out(struct plan *plan, const struct header *header) {
  plan->record_count = header->record_count;
  plan->duration_ns = header->duration_ns;
  plan->max_transfer_bytes = header->max_transfer_bytes;
  plan->needed_bytes = header->needed_bytes;
  plan->file_count = header->file_count;
  plan->thread_count = header->thread_count;
  plan->step_count = header->step_count;
  plan->handle_count = header->handle_count;
  plan->is_repeatable = (header->flags & IS_REPEATABLE) != 0;
  bool is_slow = (header->flags & HAS_MEDIUM) != 0;
  plan->read_line_ns = is_slow ? header->read_line_ns : 0;
  plan->write_line_ns = is_slow ? header->write_line_ns : 0;
  plan->records = (const struct plan_record *)(header + 1);
  plan->threads = (const struct plan_thread *)(plan->records + plan->record_count);
  plan->steps = (const struct plan_step *)(plan->threads + plan->thread_count);
  plan->files = (const struct plan_file *)(plan->steps + plan->step_count);
  plan->names = (const char *)(plan->files + plan->file_count);
  return (const char *)plan->threads;
}

static int refuse_entry(const char *path, const char *what, uint64_t number, const char *wrong) {
  diag("%s: %s %" PRIu64 " %s", path, what, number, wrong);
  return -EINVAL;
}

static int check_thread(const struct plan *plan, const char *path, uint64_t *next,
                        uint32_t number) {
  const struct plan_thread *thread = &plan->threads[number];
  if (thread->first != *next || thread->count > plan->record_count - *next)
    return refuse_entry(path, "thread", number, "does not follow the one before it");
  *next += thread->count;
  for (uint64_t i = thread->first; i < *next; i++) {
    const char *wrong = rules_record(plan, thread, i);
    if (wrong != NULL)
      return refuse_entry(path, "record", i, wrong);
  }
  return 0;
}

static int check_waits(const struct plan *plan, const char *path) {
  uint32_t record;
  int rc = circle_find(plan, &record);
  if (rc != -ELOOP)
    return rc;
  diag("%s: record %" PRIu32 " waits for record %" PRIu32 ", which waits for it in turn: "
       "neither could ever begin",
       path, record, plan->records[record].after);
  return -EINVAL;
}

static int check_entries(const struct plan *plan, const char *path, uint64_t name_bytes) {
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const char *wrong = rules_step(&plan->steps[i]);
    if (wrong != NULL)
      return refuse_entry(path, "step", i, wrong);
  }
  for (uint32_t i = 0; i < plan->file_count; i++) {
    const char *wrong = rules_file(plan, name_bytes, i);
    if (wrong != NULL)
      return refuse_entry(path, "file", i, wrong);
  }
  uint64_t next = 0;
  for (uint32_t i = 0; i < plan->thread_count; i++) {
    int rc = check_thread(plan, path, &next, i);
    if (rc != 0)
      return rc;
  }
  if (next != plan->record_count)
    return refuse(path, "has records that belong to no thread");
  return check_waits(plan, path);
}

static int check_all(struct plan *plan, const char *path) {
  const struct header *header = plan->map;
  struct crc_table crc;
  crc_table_init(&crc);
  const char *wrong = wrong_format(header, &crc);
  if (wrong == NULL)
    wrong = wrong_values(header, plan->map_bytes);
  if (wrong != NULL)
    return refuse(path, wrong);
  const char *tables = lay_out(plan, header);
  const char *end = (const char *)plan->map + plan->map_bytes;
  size_t record_bytes = plan->record_count * sizeof *plan->records;
  if (crc_update(&crc, 0, plan->records, record_bytes) != header->records_crc32 ||
      crc_update(&crc, 0, tables, (size_t)(end - tables)) != header->tables_crc32)
    return refuse(path, "is damaged: a checksum is wrong");
  return check_entries(plan, path, header->name_bytes);
}

static int map_file(struct plan *plan, const char *path, int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0)
    return -errno;
  if (!S_ISREG(status.st_mode))
    return refuse(path, "is not a regular file");
  if ((uint64_t)status.st_size < sizeof(struct header))
    return refuse(path, "is too short to be a file plan");
  plan->map_bytes = (size_t)status.st_size;
  void *map = mmap(NULL, plan->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED)
    return -errno;
  plan->map = map;
  return check_all(plan, path);
}

uint32_t plan_thread_of(const struct plan *plan, uint32_t record) {
  uint32_t low = 0;
  uint32_t high = plan->thread_count - 1;
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    if (plan->threads[middle].first <= record)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

int plan_open(struct plan *plan, const char *path) {
  memset(plan, 0, sizeof *plan);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  int rc = fd < 0 ? -errno : map_file(plan, path, fd);
  if (fd < 0 || (rc != 0 && rc != -EINVAL))
    diag("cannot read the plan %s: %s", path, strerror(-rc));
  if (fd >= 0)
    (void)close(fd); /* only read */
  if (rc != 0)
    plan_close(plan);
  return rc;
}

void plan_close(struct plan *plan) {
  if (plan->map != NULL)
    (void)munmap(plan->map, plan->map_bytes); /* fails only for a range that was never mapped */
  plan->map = NULL;
}
