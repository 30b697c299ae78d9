#include "play/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define TRIES_MAX 1000U

bool transfer_goes_on(uint32_t *tries) { return errno == EINTR && ++*tries <= TRIES_MAX; }

int transfer_read(int fd, void *data, size_t size, uint64_t offset) {
  char *at = data;
  uint32_t tries = 0;
  while (size > 0) {
    ssize_t got = pread(fd, at, size, (off_t)offset);
    if (got < 0 && transfer_goes_on(&tries))
      continue;
    if (got < 0)
      return -errno;
    if (got == 0)
      return -ENODATA;
    tries = 0;
    at += got;
    offset += (uint64_t)got;
    size -= (size_t)got;
  }
  return 0;
}

static ssize_t write_some(int fd, const char *at, size_t size, uint64_t offset, int flags) {
  if (flags == 0)
    return pwrite(fd, at, size, (off_t)offset);
  /* writev takes a pointer to non-const, but only reads through it. */
  struct iovec piece = {.iov_base = (void *)(uintptr_t)at, .iov_len = size};
  return pwritev2(fd, &piece, 1, (off_t)offset, flags);
}

int transfer_write(int fd, const void *data, size_t size, uint64_t offset, int flags) {
  const char *at = data;
  uint32_t tries = 0;
  while (size > 0) {
    ssize_t put = write_some(fd, at, size, offset, flags);
    if (put < 0 && transfer_goes_on(&tries))
      continue;
    if (put < 0)
      return -errno;
    if (put == 0)
      return -ENOSPC;
    tries = 0;
    at += put;
    offset += (uint64_t)put;
    size -= (size_t)put;
  }
  return 0;
}

int transfer_rename(const char *part, const char *path) {
  char copy[PATH_MAX];
  if (strlen(path) >= sizeof copy)
    return -ENAMETOOLONG;
  if (rename(part, path) != 0)
    return -errno;
  (void)strcpy(copy, path);
  int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return 0; /* one that may not be read: the name is given, and written back some time */
  int rc = fsync(folder) != 0 && errno != EINVAL ? -errno : 0; /* not every file system can */
  (void)close(folder);
  return rc;
}
