#include "play/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play/diag.h"
#include "play/transfer.h"

#define VERSION 1U
#define FILE_MODE 0644
#define MAGIC_BYTES 8

/* The first 64 bytes of the file. */
struct header {
  char magic[MAGIC_BYTES];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t record_bytes;
  uint32_t is_complete; /* 0 while the run is under way */
  uint64_t record_count;
  uint8_t reserved[32];
};
_Static_assert(sizeof(struct header) == 64, "the header has 64 bytes");

static int write_header(const struct record_file *file, uint64_t count, bool is_complete) {
  struct header header = {.version = VERSION,
                          .header_bytes = sizeof header,
                          .record_bytes = file->record_bytes,
                          .is_complete = is_complete ? 1 : 0,
                          .record_count = count};
  memcpy(header.magic, file->magic, MAGIC_BYTES);
  return transfer_write(file->fd, &header, sizeof header, 0, 0);
}

int record_file_open(struct record_file *file, const char *path, const char *magic,
                     uint32_t record_bytes) {
  *file = (struct record_file){.fd = -1, .magic = magic, .record_bytes = record_bytes};
  if (path == NULL)
    return 0;
  size_t size = strlen(path) + 32;
  struct stat status;
  if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
    return -EINVAL; /* renaming a file over it would destroy it */
  file->path = strdup(path);
  file->beside = malloc(size);
  if (file->path == NULL || file->beside == NULL)
    return -ENOMEM;
  (void)snprintf(file->beside, size, "%s.%ld.part", path, (long)getpid()); /* always fits */
  file->fd = open(file->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
  return file->fd < 0 ? -errno : write_header(file, 0, false);
}

int record_file_write(const struct record_file *file, uint64_t place, const void *records,
                      uint32_t count) {
  uint64_t offset = sizeof(struct header) + place * file->record_bytes;
  return transfer_write(file->fd, records, (size_t)count * file->record_bytes, offset, 0);
}

int record_file_finish(struct record_file *file, uint64_t count, int rc, const char *what) {
  if (file->fd < 0)
    return 0;
  /* A file that misses records is kept as well: its header does not call it complete. */
  if (write_header(file, count, rc == 0) != 0 && rc == 0)
    rc = -EIO;
  if (rc == 0 && fsync(file->fd) != 0)
    rc = -errno;
  if (rc == 0)
    rc = transfer_rename(file->beside, file->path);
  if (rc != 0)
    diag("cannot write all %s to %s: %s; what was written is in %s", what, file->path,
         strerror(-rc), file->beside);
  (void)close(file->fd); /* synchronized above */
  file->fd = -1;
  return rc;
}

void record_file_close(struct record_file *file) {
  if (file->fd >= 0) {
    (void)close(file->fd);
    (void)unlink(file->beside); /* an unfinished file of ours */
  }
  free(file->path);
  free(file->beside);
}
