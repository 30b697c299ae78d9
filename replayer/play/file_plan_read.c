#include "play/file_plan_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play/crc.h"
#include "play/deadlock_check.h"
#include "play/diag.h"
#include "play/flow_plan_read.h"

#define NAME_MAX_BYTES 255U

/* What an operation goes by. */
enum need { BY_HANDLE, BY_PATH, BY_EITHER, BY_BOTH, BY_TWO_PATHS, BY_NOTHING };

static const uint8_t needs[FILE_OPERATIONS] = {
    [FILE_OPEN] = BY_BOTH,        [FILE_CREATE] = BY_BOTH,
    [FILE_CLOSE] = BY_HANDLE,     [FILE_READ] = BY_HANDLE,
    [FILE_WRITE] = BY_HANDLE,     [FILE_FSYNC] = BY_HANDLE,
    [FILE_FDATASYNC] = BY_HANDLE, [FILE_SYNC_FILE_RANGE] = BY_HANDLE,
    [FILE_STAT] = BY_EITHER,      [FILE_RENAME] = BY_TWO_PATHS,
    [FILE_LINK] = BY_TWO_PATHS,   [FILE_UNLINK] = BY_PATH,
    [FILE_MKDIR] = BY_PATH,       [FILE_RMDIR] = BY_PATH,
    [FILE_READDIR] = BY_EITHER,   [FILE_TRUNCATE] = BY_EITHER,
    [FILE_FALLOCATE] = BY_HANDLE, [FILE_MMAP] = BY_HANDLE,
    [FILE_MUNMAP] = BY_HANDLE,    [FILE_MSYNC] = BY_HANDLE,
    [FILE_SYNC] = BY_NOTHING,     [FILE_CHMOD] = BY_EITHER,
    [FILE_CHOWN] = BY_EITHER,     [FILE_UTIMENS] = BY_EITHER,
};

/* A name is what could lead out of the directory of the run, so it is checked first. */
static const char *rules_file(const struct file_plan *plan, uint64_t name_bytes, uint32_t number) {
  const struct file_entry *file = &plan->files[number];
  if (file->name_bytes == 0 || file->name_bytes > NAME_MAX_BYTES ||
      file->name_offset > name_bytes || file->name_bytes > name_bytes - file->name_offset)
    return "has no proper name";
  const char *name = plan->names + file->name_offset;
  bool is_dots =
      name[0] == '.' && (file->name_bytes == 1 || (file->name_bytes == 2 && name[1] == '.'));
  if (is_dots || memchr(name, '/', file->name_bytes) != NULL ||
      memchr(name, '\0', file->name_bytes) != NULL)
    return "has a name that is none: it could leave the directory";
  if (file->kind > FILE_DIRECTORY || file->is_present > 1)
    return "is of an unknown kind";
  if (file->size_bytes > INT64_MAX)
    return "has an absurd size";
  if (file->parent == FILE_NONE)
    return NULL;
  if (file->parent >= number || plan->files[file->parent].kind != FILE_DIRECTORY)
    return "is not below a directory that stands before it";
  if (file->is_present && !plan->files[file->parent].is_present)
    return "is there before its directory is";
  return NULL;
}

static const char *rules_step(const struct file_step *step) {
  size_t length = strnlen(step->label, sizeof step->label);
  if (length == 0 || length == sizeof step->label)
    return "has no proper label";
  for (size_t i = 0; i < length; i++)
    if (step->label[i] <= ' ' || step->label[i] > '~')
      return "has a label that is not plain text";
  return NULL;
}

static const char *wrong_place(const struct file_plan *plan, const struct file_record *record) {
  bool has_file = record->file != FILE_NONE;
  bool has_handle = record->handle != FILE_NONE;
  if ((has_file && record->file >= plan->file_count) ||
      (record->other != FILE_NONE && record->other >= plan->file_count))
    return "names a file that the plan does not have";
  if (has_handle && record->handle >= plan->handle_count)
    return "names a handle that the plan does not have";
  enum need need = (enum need)needs[record->operation];
  bool lacks_handle = (need == BY_HANDLE || need == BY_BOTH) && !has_handle;
  bool lacks_path = (need == BY_PATH || need == BY_BOTH || need == BY_TWO_PATHS) && !has_file;
  if (lacks_handle || lacks_path || (need == BY_EITHER && !has_file && !has_handle) ||
      (need == BY_TWO_PATHS && record->other == FILE_NONE))
    return "lacks the file or the handle of its operation";
  return NULL;
}

static const char *wrong_range(const struct file_plan *plan, const struct file_record *record) {
  bool moves = record->operation == FILE_READ || record->operation == FILE_WRITE;
  if (moves && record->length > plan->max_transfer_bytes)
    return "is longer than the longest transfer of the header";
  if (record->length > INT64_MAX)
    return "has an absurd length";
  if (record->offset == FILE_AT_POSITION)
    return moves ? NULL
           : (record->operation == FILE_MMAP || record->operation == FILE_FALLOCATE ||
              record->operation == FILE_SYNC_FILE_RANGE)
               ? "needs an offset"
               : NULL;
  if (record->offset > INT64_MAX - record->length)
    return "lies beyond the end of any file";
  return NULL;
}

/* Each index is checked here once, so that the run can use it as it is. */
static const char *rules_record(const struct file_plan *plan, const struct file_thread *thread,
                                uint64_t number) {
  const struct file_record *record = &plan->records[number];
  if (record->operation >= FILE_OPERATIONS)
    return "has an unknown operation";
  if ((record->flags & ~FILE_FLAGS) != 0 || record->expected_error > FILE_PLAN_ERROR_MAX)
    return "has unknown flags or an unknown error";
  if (record->step != FILE_NO_STEP && record->step >= plan->step_count)
    return "names a step that the plan does not have";
  if (record->start_ns > plan->duration_ns ||
      (number > thread->first && record->start_ns < record[-1].start_ns))
    return "is out of the order of time in its thread";
  if (record->after != FILE_NONE &&
      (record->after >= plan->record_count ||
       (record->after >= number &&
        record->after - number < thread->first + thread->count - number)))
    return "waits for a record that comes later in its own thread, or for none";
  const char *wrong = wrong_place(plan, record);
  return wrong != NULL ? wrong : wrong_range(plan, record);
}

#define VERSION 1U
#define NAMES_MAX (UINT64_C(1) << 32)
#define FLOW_MAX (UINT64_C(1) << 40)
#define IS_REPEATABLE 1U
#define HAS_FLOW 4U
#define HAS_MEMORY 8U

/* Every number of the file is little-endian; the structures are read as they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "plans are read on little-endian hosts");
_Static_assert(sizeof(struct file_record) == 64, "a record has 64 bytes");
_Static_assert(sizeof(struct file_thread) == 24, "a thread has 24 bytes");
_Static_assert(sizeof(struct file_step) == 32, "a step has 32 bytes");
_Static_assert(sizeof(struct file_entry) == 32, "a file has 32 bytes");

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
  uint32_t flags; /* or'ed IS_REPEATABLE, HAS_FLOW, HAS_MEMORY */
  uint32_t records_crc32;
  uint32_t tables_crc32; /* of all that follows the records */
  uint8_t reserved[12];
  uint64_t flow_bytes; /* 0 without HAS_FLOW */
  uint8_t reserved_too[4];
  uint32_t header_crc32; /* of the bytes before it */
};
_Static_assert(sizeof(struct header) == 128, "the header has 128 bytes");

static int reject(const char *path, const char *wrong) {
  diag("%s %s", path, wrong);
  return -EINVAL;
}

/* What is wrong with a header, NULL if nothing is. */
static const char *wrong_format(const struct header *header, const struct crc_table *crc) {
  if (memcmp(header->magic, FILE_PLAN_MAGIC, sizeof header->magic) != 0)
    return "is no file plan: its first bytes are wrong";
  if (header->version != VERSION)
    return "is a file plan of another version; this program reads version 1";
  if (crc_update(crc, 0, header, offsetof(struct header, header_crc32)) != header->header_crc32)
    return "has a damaged header: its checksum is wrong";
  if (header->header_bytes != sizeof *header ||
      header->record_bytes != sizeof(struct file_record) ||
      header->thread_bytes != sizeof(struct file_thread) ||
      header->step_bytes != sizeof(struct file_step) ||
      header->file_bytes != sizeof(struct file_entry))
    return "has a header that does not fit its version";
  return NULL;
}

static size_t memory_bytes(const struct header *header) {
  return (header->flags & HAS_MEMORY) != 0 ? sizeof(struct tk_slow_memory) : 0;
}

static const char *wrong_memory(const struct tk_slow_memory *memory) {
  if (memory->line_bytes < FILE_PLAN_LINE_BYTES_MIN ||
      memory->line_bytes > FILE_PLAN_LINE_BYTES_MAX)
    return "has a memory whose lines are not of 64 to 65536 bytes";
  for (unsigned i = 0; i < 2; i++) {
    const struct tk_memory_way *way = &memory->ways[i];
    if (way->latency_ns > FILE_PLAN_LINE_NS_MAX || way->line_ps / 1000 > FILE_PLAN_LINE_NS_MAX ||
        way->device_ps / 1000 > FILE_PLAN_LINE_NS_MAX)
      return "has a memory that takes more than a millisecond for a line";
  }
  return NULL;
}

/* The counts are bounded before they are multiplied, so that the sum of the parts cannot overflow.
 */
static const char *wrong_values(const struct header *header, uint64_t file_bytes) {
  if (header->record_count >= FILE_NONE || header->file_count == FILE_NONE ||
      header->name_bytes > NAMES_MAX || header->flow_bytes > FLOW_MAX)
    return "claims more records, files or names than a file plan can have";
  if ((header->flow_bytes > 0) != ((header->flags & HAS_FLOW) != 0))
    return "has flags and a size of its flow that do not fit";
  if (header->thread_count == 0 || header->thread_count > FILE_PLAN_THREADS_MAX)
    return "must have 1 to 4096 threads";
  if (header->step_count > FILE_NO_STEP || header->handle_count > FILE_PLAN_HANDLES_MAX)
    return "claims more than 255 steps or 2^24 handles";
  if (header->max_transfer_bytes > FILE_PLAN_TRANSFER_MAX)
    return "claims a transfer of more than 64 MiB";
  if (header->duration_ns > INT64_MAX ||
      (header->flags & ~(IS_REPEATABLE | HAS_FLOW | HAS_MEMORY)) != 0)
    return "has an absurd duration or unknown flags";
  uint64_t end = sizeof *header + header->record_count * header->record_bytes +
                 (uint64_t)header->thread_count * header->thread_bytes +
                 (uint64_t)header->step_count * header->step_bytes +
                 (uint64_t)header->file_count * header->file_bytes + memory_bytes(header) +
                 header->flow_bytes + header->name_bytes;
  if (file_bytes < end)
    return "is truncated: it is shorter than its header says";
  return file_bytes > end ? "is longer than its header says" : NULL;
}

/* Points into the mapping; returns where the tables begin. */
static const char *lay_out(struct file_plan *plan, const struct header *header) {
  plan->record_count = header->record_count;
  plan->duration_ns = header->duration_ns;
  plan->max_transfer_bytes = header->max_transfer_bytes;
  plan->needed_bytes = header->needed_bytes;
  plan->file_count = header->file_count;
  plan->thread_count = header->thread_count;
  plan->step_count = header->step_count;
  plan->handle_count = header->handle_count;
  plan->is_repeatable = (header->flags & IS_REPEATABLE) != 0;
  plan->records = (const struct file_record *)(header + 1);
  plan->threads = (const struct file_thread *)(plan->records + plan->record_count);
  plan->steps = (const struct file_step *)(plan->threads + plan->thread_count);
  plan->files = (const struct file_entry *)(plan->steps + plan->step_count);
  const char *after = (const char *)(plan->files + plan->file_count);
  plan->memory = memory_bytes(header) > 0 ? (const struct tk_slow_memory *)after : NULL;
  plan->names = after + memory_bytes(header) + header->flow_bytes;
  return (const char *)plan->threads;
}

static int reject_entry(const char *path, const char *what, uint64_t number, const char *wrong) {
  diag("%s: %s %" PRIu64 " %s", path, what, number, wrong);
  return -EINVAL;
}

static int check_thread(const struct file_plan *plan, const char *path, uint64_t *next,
                        uint32_t number) {
  const struct file_thread *thread = &plan->threads[number];
  if (thread->first != *next || thread->count > plan->record_count - *next)
    return reject_entry(path, "thread", number, "does not follow the one before it");
  *next += thread->count;
  for (uint64_t i = thread->first; i < *next; i++) {
    const char *wrong = rules_record(plan, thread, i);
    if (wrong != NULL)
      return reject_entry(path, "record", i, wrong);
  }
  return 0;
}

static int check_waits(const struct file_plan *plan, const char *path) {
  uint32_t record;
  int rc = deadlock_check(plan, &record);
  if (rc != -ELOOP)
    return rc;
  diag("%s: record %" PRIu32 " waits for record %" PRIu32 ", which waits for it in turn: "
       "neither could ever begin",
       path, record, plan->records[record].after);
  return -EINVAL;
}

/* Tables come before records, since the rules of a record look into them. */
static int check_entries(const struct file_plan *plan, const char *path, uint64_t name_bytes) {
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const char *wrong = rules_step(&plan->steps[i]);
    if (wrong != NULL)
      return reject_entry(path, "step", i, wrong);
  }
  for (uint32_t i = 0; i < plan->file_count; i++) {
    const char *wrong = rules_file(plan, name_bytes, i);
    if (wrong != NULL)
      return reject_entry(path, "file", i, wrong);
  }
  uint64_t next = 0;
  for (uint32_t i = 0; i < plan->thread_count; i++) {
    int rc = check_thread(plan, path, &next, i);
    if (rc != 0)
      return rc;
  }
  if (next != plan->record_count)
    return reject(path, "has records that belong to no thread");
  return check_waits(plan, path);
}

static int check_all(struct file_plan *plan, const char *path) {
  const struct header *header = plan->map;
  struct crc_table crc;
  crc_table_init(&crc);
  const char *wrong = wrong_format(header, &crc);
  if (wrong == NULL)
    wrong = wrong_values(header, plan->map_bytes);
  if (wrong != NULL)
    return reject(path, wrong);
  const char *tables = lay_out(plan, header);
  const char *end = (const char *)plan->map + plan->map_bytes;
  size_t record_bytes = plan->record_count * sizeof *plan->records;
  if (crc_update(&crc, 0, plan->records, record_bytes) != header->records_crc32 ||
      crc_update(&crc, 0, tables, (size_t)(end - tables)) != header->tables_crc32)
    return reject(path, "is damaged: a checksum is wrong");
  if (plan->memory != NULL && (wrong = wrong_memory(plan->memory)) != NULL)
    return reject(path, wrong);
  int rc = check_entries(plan, path, header->name_bytes);
  if (rc != 0 || header->flow_bytes == 0)
    return rc;
  return flow_plan_read(plan, plan->names - header->flow_bytes, header->flow_bytes, path);
}

static int map_file(struct file_plan *plan, const char *path, int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0)
    return -errno;
  if (!S_ISREG(status.st_mode))
    return reject(path, "is not a regular file");
  if ((uint64_t)status.st_size < sizeof(struct header))
    return reject(path, "is too short to be a file plan");
  plan->map_bytes = (size_t)status.st_size;
  void *map = mmap(NULL, plan->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED)
    return -errno;
  plan->map = map;
  return check_all(plan, path);
}

int file_plan_open(struct file_plan *plan, const char *path) {
  memset(plan, 0, sizeof *plan);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  int rc = fd < 0 ? -errno : map_file(plan, path, fd);
  if (fd < 0 || (rc != 0 && rc != -EINVAL))
    diag("cannot read the plan %s: %s", path, strerror(-rc));
  if (fd >= 0)
    (void)close(fd); /* only read */
  if (rc != 0)
    file_plan_close(plan);
  return rc;
}

void file_plan_close(struct file_plan *plan) {
  if (plan->map != NULL)
    (void)munmap(plan->map, plan->map_bytes); /* fails only for a range that was never mapped */
  plan->map = NULL;
}
