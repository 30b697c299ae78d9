#include "play/open_beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

int open_beneath(int directory_fd, const char *path, int flags, mode_t mode) {
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
