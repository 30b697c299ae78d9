/* Loaded before the C library: makes chosen calls fail or come short, and writes down the order. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* The first write at or behind SHIM_EIO_AT (a byte) fails; reads give at most SHIM_SHORT bytes. */
static long number(const char *name) {
  const char *text = getenv(name);
  return text == NULL ? -1 : atol(text);
}

static int is_target(int fd) {
  char link[64];
  char path[512];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  const char *wanted = getenv("SHIM_TARGET");
  if (length < 0 || wanted == NULL)
    return 0;
  path[length] = '\0';
  return strcmp(path, wanted) == 0;
}

static void note(const char *what, long offset, long size, int flags) {
  char line[128];
  const char *path = getenv("SHIM_LOG");
  if (path == NULL)
    return;
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  int length = snprintf(line, sizeof line, "%s %ld %ld %d\n", what, offset, size, flags);
  if (write(fd, line, (size_t)length) != length)
    abort();
  close(fd);
}

/* Writes of SHIM_SLOW_BYTES take SHIM_SLOW_MS; begin and end are noted, with the descriptor. */
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
  ssize_t (*real)(int, const void *, size_t, off_t) =
      (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
  if (number("SHIM_SLOW_BYTES") == (long)size) {
    note("begin", offset, (long)size, fd);
    usleep(1000 * (useconds_t)number("SHIM_SLOW_MS"));
    note("end", offset, (long)size, fd);
    return real(fd, data, size, offset);
  }
  if (!is_target(fd))
    return real(fd, data, size, offset);
  note("write", offset, (long)size, 0);
  if (number("SHIM_EIO_AT") >= 0 && offset >= number("SHIM_EIO_AT")) {
    errno = EIO;
    return -1;
  }
  long limit = number("SHIM_SHORT");
  return real(fd, data, limit > 0 && (long)size > limit ? (size_t)limit : size, offset);
}

ssize_t pwritev2(int fd, const struct iovec *pieces, int count, off_t offset, int flags) {
  ssize_t (*real)(int, const struct iovec *, int, off_t, int) =
      (ssize_t (*)(int, const struct iovec *, int, off_t, int))dlsym(RTLD_NEXT, "pwritev2");
  if (is_target(fd))
    note("write", offset, (long)pieces[0].iov_len, flags);
  return real(fd, pieces, count, offset, flags);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset) {
  ssize_t (*real)(int, void *, size_t, off_t) =
      (ssize_t (*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  if (!is_target(fd))
    return real(fd, data, size, offset);
  note("read", offset, (long)size, 0);
  static atomic_int calls;
  if (number("SHIM_EINTR") > 0 && atomic_fetch_add(&calls, 1) % 2 == 0) {
    errno = EINTR;
    return -1;
  }
  long limit = number("SHIM_SHORT");
  return real(fd, data, limit > 0 && (long)size > limit ? (size_t)limit : size, offset);
}

/* Removing takes SHIM_UNLINK_MS. */
int unlinkat(int fd, const char *name, int flags) {
  int (*real)(int, const char *, int) =
      (int (*)(int, const char *, int))dlsym(RTLD_NEXT, "unlinkat");
  if (number("SHIM_UNLINK_MS") > 0)
    usleep(1000 * (useconds_t)number("SHIM_UNLINK_MS"));
  return real(fd, name, flags);
}

int fdatasync(int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  if (!is_target(fd))
    return real(fd);
  note("flush", 0, 0, 0);
  if (number("SHIM_FLUSH_EIO") > 0) {
    errno = EIO;
    return -1;
  }
  return real(fd);
}
