#include "files/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES_BYTES 32768U

int beneath_open(int directory_fd, const char *path, int flags, mode_t mode) {
  struct open_how how = {
      .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW),
      .mode = (flags & O_CREAT) != 0 ? mode : 0,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
  };
  long fd = syscall(SYS_openat2, directory_fd, path, &how, sizeof how);
  if (fd < 0 && errno == ENOSYS)
    fd = openat(directory_fd, path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
  return fd < 0 ? -errno : (int)fd;
}

int64_t beneath_list(int fd, const struct plan_record *record) {
  _Alignas(8) unsigned char entries[ENTRIES_BYTES];
  int64_t count = 0;
  (void)record;
  if (lseek(fd, 0, SEEK_SET) < 0)
    return -errno;
  for (;;) {
    long size = syscall(SYS_getdents64, fd, entries, sizeof entries);
    if (size <= 0)
      return size < 0 ? -errno : count;
    /* struct linux_dirent64: d_ino and d_off of 8 bytes, then d_reclen of 2. */
    for (long at = 0; at < size; count++) {
      uint16_t entry_bytes;
      memcpy(&entry_bytes, entries + at + 16, sizeof entry_bytes);
      at += entry_bytes;
    }
  }
}
