#include "common/rename.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The system call itself, because not every C library has a function for it. */
static int rename_with(const char *from, const char *to, unsigned flags) {
  return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags) ? -errno : 0;
}

int tk_rename_new(const char *from, const char *to) {
  return rename_with(from, to, RENAME_NOREPLACE);
}

int tk_rename_exchange(const char *one, const char *other) {
  return rename_with(one, other, RENAME_EXCHANGE);
}
