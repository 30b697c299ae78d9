/* The peer of the file replayer for any list of calls: it makes them one after the other, and
 * nothing around them. usage: calls LIST DIRECTORY; prints the ns of all of them. LIST: u64 calls,
 * u64 files, the calls, then 256 bytes a path, NUL-padded, relative to DIRECTORY. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_BYTES (64U << 20)
#define PATH_BYTES 256

enum { OPEN = 0, CLOSE = 2, READ = 3, WRITE = 4, FSYNC = 5 }; /* as in a file plan */

struct call {
  uint64_t offset;
  uint64_t length;
  uint32_t operation;
  uint32_t file;
};

struct list {
  uint64_t call_count;
  uint64_t file_count;
  struct call *calls;
  char (*paths)[PATH_BYTES];
  int *fds;
};

static int load(struct list *list, const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fread(list, sizeof(uint64_t), 2, file) != 2)
    return -1;
  list->calls = calloc(list->call_count, sizeof *list->calls);
  list->paths = calloc(list->file_count, PATH_BYTES);
  list->fds = calloc(list->file_count, sizeof *list->fds);
  if (list->calls == NULL || list->paths == NULL || list->fds == NULL)
    return -1;
  size_t read = fread(list->calls, sizeof *list->calls, list->call_count, file);
  read += fread(list->paths, PATH_BYTES, list->file_count, file);
  (void)fclose(file);
  return read == list->call_count + list->file_count ? 0 : -1;
}

static int open_beneath(int directory, const char *path) {
  struct open_how how = {.flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
}

static int perform(const struct list *list, const struct call *call, int directory, char *bytes) {
  int *fd = &list->fds[call->file];
  switch (call->operation) {
  case OPEN:
    *fd = open_beneath(directory, list->paths[call->file]);
    return *fd < 0;
  case CLOSE:
    return close(*fd) != 0;
  case READ:
    return pread(*fd, bytes, call->length, (off_t)call->offset) < 0;
  case WRITE:
    return pwrite(*fd, bytes, call->length, (off_t)call->offset) != (ssize_t)call->length;
  default:
    return fsync(*fd) != 0;
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int count, char **arguments) {
  struct list list = {0};
  char *bytes = aligned_alloc(4096, MOST_BYTES);
  if (count != 3 || bytes == NULL || load(&list, arguments[1]) != 0)
    return 2;
  int directory = open(arguments[2], O_RDONLY | O_DIRECTORY);
  for (size_t i = 0; i < MOST_BYTES; i++)
    bytes[i] = (char)i;
  double start = now();
  for (uint64_t i = 0; i < list.call_count; i++)
    if (perform(&list, &list.calls[i], directory, bytes) != 0) {
      perror("call");
      return 1;
    }
  printf("%.0f\n", now() - start);
  return 0;
}
