#include "files/results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/diag.h"
#include "replay/transfer.h"

#define MAGIC "TKFDON\r\n"
#define VERSION 1U

_Static_assert(sizeof(struct results_record) == 48, "a record has 48 bytes");

/* The first 64 bytes of the file. */
struct header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t record_bytes;
  uint32_t is_complete; /* 0 while the run is under way */
  uint64_t record_count;
  uint8_t reserved[32];
};
_Static_assert(sizeof(struct header) == 64, "the header has 64 bytes");

struct results {
  int fd;                   /* -1: records are thrown away */
  char *path;               /* final name */
  char *beside;             /* name while it is written */
  _Atomic uint64_t claimed; /* records that have a place in the file */
  _Atomic int error;
};

static int write_header(const struct results *results, bool is_complete) {
  struct header header = {.magic = MAGIC,
                          .version = VERSION,
                          .header_bytes = sizeof header,
                          .record_bytes = sizeof(struct results_record),
                          .is_complete = is_complete ? 1 : 0,
                          .record_count = atomic_load(&results->claimed)};
  return transfer_write(results->fd, &header, sizeof header, 0, 0);
}

static int open_file(struct results *results, const char *path) {
  size_t size = strlen(path) + 32;
  struct stat status;
  if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
    return -EINVAL; /* renaming a file over it would destroy it */
  results->path = strdup(path);
  results->beside = malloc(size);
  if (results->path == NULL || results->beside == NULL)
    return -ENOMEM;
  (void)snprintf(results->beside, size, "%s.%ld.part", path, (long)getpid()); /* always fits */
  results->fd = open(results->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  return results->fd < 0 ? -errno : write_header(results, false);
}

int results_open(struct results **out, const char *path) {
  struct results *results = calloc(1, sizeof *results);
  if (results == NULL)
    return -ENOMEM;
  results->fd = -1;
  int rc = path == NULL ? 0 : open_file(results, path);
  if (rc != 0) {
    diag("cannot write results to %s: %s", path, strerror(-rc));
    results_close(results);
    return rc;
  }
  *out = results;
  return 0;
}

void results_flush(struct results *results, struct results_block *block) {
  uint32_t count = block->count;
  block->count = 0;
  if (results->fd < 0 || count == 0 || results_error(results) != 0)
    return;
  uint64_t place = atomic_fetch_add_explicit(&results->claimed, count, memory_order_relaxed);
  uint64_t offset = sizeof(struct header) + place * sizeof *block->records;
  int rc = transfer_write(results->fd, block->records, count * sizeof *block->records, offset, 0);
  int none = 0;
  if (rc != 0)
    (void)atomic_compare_exchange_strong(&results->error, &none, rc); /* the first one stays */
}

void results_add(struct results *results, struct results_block *block,
                 const struct results_record *record) {
  if (results->fd < 0)
    return;
  block->records[block->count++] = *record;
  if (block->count == RESULTS_BLOCK)
    results_flush(results, block);
}

int results_error(const struct results *results) {
  return atomic_load_explicit(&results->error, memory_order_relaxed);
}

int results_finish(struct results *results) {
  if (results->fd < 0)
    return 0;
  int rc = results_error(results);
  /* A file that misses records is kept as well: its header does not call it complete. */
  if (write_header(results, rc == 0) != 0 && rc == 0)
    rc = -EIO;
  if (rc == 0 && (fsync(results->fd) != 0 || rename(results->beside, results->path) != 0))
    rc = -errno;
  if (rc != 0)
    diag("cannot write all results to %s: %s; what was written is in %s", results->path,
         strerror(-rc), results->beside);
  (void)close(results->fd); /* synchronized above */
  results->fd = -1;
  return rc;
}

void results_close(struct results *results) {
  if (results == NULL)
    return;
  if (results->fd >= 0) {
    (void)close(results->fd);
    (void)unlink(results->beside); /* an unfinished file of ours */
  }
  free(results->path);
  free(results->beside);
  free(results);
}
