/* The peer of the file replayer: the calls of a mail server's loop, and nothing around them.
 * usage: mail DIRECTORY LOOPS; makes DIRECTORY/old before, prints the ns of a call. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BYTES 16384
#define CALLS 10

static int open_beneath(int directory, const char *path, unsigned long flags, unsigned mode) {
  struct open_how how = {.flags = flags | O_CLOEXEC | O_NOFOLLOW,
                         .mode = mode,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
}

static void loop(int directory, char *bytes) {
  struct stat status;
  int mail = open_beneath(directory, "d/mail", O_RDWR | O_CREAT | O_EXCL, 0644);
  long good = pwrite(mail, bytes, BYTES, 0) == BYTES && fsync(mail) == 0 && close(mail) == 0;
  int old = open_beneath(directory, "d/old", O_RDONLY, 0);
  good = good && pread(old, bytes, BYTES, 0) == BYTES && close(old) == 0;
  good = good && fstatat(directory, "d/old", &status, AT_SYMLINK_NOFOLLOW) == 0;
  good = good && fstatat(directory, "d/mail", &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (!good || unlinkat(directory, "d/mail", 0) != 0)
    abort();
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int count, char **arguments) {
  if (count != 3)
    return 2;
  char *bytes = aligned_alloc(4096, BYTES);
  int directory = open(arguments[1], O_RDONLY | O_DIRECTORY);
  long loops = atol(arguments[2]);
  mkdirat(directory, "d", 0755);
  int old = openat(directory, "d/old", O_WRONLY | O_CREAT, 0644);
  for (int i = 0; i < BYTES; i++)
    bytes[i] = (char)i;
  if (old < 0 || pwrite(old, bytes, BYTES, 0) != BYTES || close(old) != 0)
    return 1;
  double start = now();
  for (long i = 0; i < loops; i++)
    loop(directory, bytes);
  printf("%.1f\n", (now() - start) / (double)(loops * CALLS));
  unlinkat(directory, "d/old", 0);
  return 0;
}
