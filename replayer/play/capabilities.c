#include "play/capabilities.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/sysfs.h"

#define PAGE_BYTES 4096

int capabilities_folder_of(const char *path, char *folder, size_t size) {
  size_t length = strlen(path);
  while (length > 0 && path[length - 1] != '/')
    length--;
  const char *parent = length == 0 ? "." : path;
  length = length == 0 ? 1 : length > 1 ? length - 1 : length;
  if (length >= size)
    return -ENAMETOOLONG;
  memcpy(folder, parent, length);
  folder[length] = '\0';
  return 0;
}

int capabilities_scratch_file(const char *path) {
  char folder[PATH_MAX];
  int rc = capabilities_folder_of(path, folder, sizeof folder);
  int fd = rc == 0 ? open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : rc;
  return fd == -1 ? -errno : fd;
}

/* Opens a nameless file in the directory of the file behind `fd`; below 0 where that is impossible.
 */
static int scratch_file(int fd) {
  char link[64];
  char path[PATH_MAX];
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd); /* always fits */
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0)
    return -1;
  path[length] = '\0';
  return capabilities_scratch_file(path);
}

static void find_of_file(int fd, bool *can_discard, bool *can_zero) {
  int scratch = scratch_file(fd);
  if (scratch < 0)
    return;
  if (ftruncate(scratch, PAGE_BYTES) == 0) {
    *can_discard =
        fallocate(scratch, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE_BYTES) == 0;
    *can_zero = fallocate(scratch, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, PAGE_BYTES) == 0;
  }
  (void)close(scratch); /* nothing in it */
}

void capabilities_find(int fd, bool *can_discard, bool *can_zero) {
  struct stat status;
  *can_discard = false;
  *can_zero = false;
  if (fstat(fd, &status) != 0)
    return;
  if (S_ISREG(status.st_mode)) {
    find_of_file(fd, can_discard, can_zero);
    return;
  }
  char limit[32];
  *can_discard = sysfs_read(status.st_rdev, "queue/discard_max_bytes", limit, sizeof limit) == 0 &&
                 strcmp(limit, "0") != 0;
  *can_zero = true; /* the kernel writes zeroes itself where the device cannot */
}

bool capabilities_known_alignment(int fd, uint32_t *align_bytes) {
#ifdef STATX_DIOALIGN
  struct statx wide;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &wide) == 0 &&
      (wide.stx_mask & STATX_DIOALIGN) != 0) {
    *align_bytes = wide.stx_dio_offset_align;
    return true;
  }
#else
  (void)fd, (void)align_bytes;
#endif
  return false;
}

uint32_t capabilities_direct_alignment(int fd) {
  struct stat status;
  int logical;
  if (fstat(fd, &status) != 0)
    return 0;
  if (S_ISBLK(status.st_mode))
    return ioctl(fd, BLKSSZGET, &logical) == 0 ? (uint32_t)logical : 0;
  uint32_t align_bytes;
  if (capabilities_known_alignment(fd, &align_bytes))
    return align_bytes;
  /* The kernel cannot say; the block size of the file system is always enough. */
  return (uint32_t)status.st_blksize;
}

bool capabilities_polls(dev_t device) {
  char polls[8];
  return sysfs_read(device, "queue/io_poll", polls, sizeof polls) == 0 && strcmp(polls, "1") == 0;
}

bool capabilities_is_read_only(int fd) {
  struct stat status;
  char text[64];
  if (fd < 0 || fstat(fd, &status) != 0)
    return false;
  if (S_ISBLK(status.st_mode))
    return sysfs_read(status.st_rdev, "ro", text, sizeof text) == 0 && strcmp(text, "1") == 0;
  (void)snprintf(text, sizeof text, "/proc/self/fd/%d", fd); /* always fits */
  return access(text, W_OK) != 0 && errno == EROFS;
}

bool capabilities_map_sync(int fd, const char *path) {
  bool is_new = fd < 0;
  size_t length = (size_t)sysconf(_SC_PAGESIZE);
  int tried = is_new ? capabilities_scratch_file(path) : fd;
  bool can_be_tried = tried >= 0 && (!is_new || ftruncate(tried, (off_t)length) == 0);
  void *bytes = can_be_tried
                    ? mmap(NULL, length, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, tried, 0)
                    : MAP_FAILED;
  if (bytes != MAP_FAILED)
    (void)munmap(bytes, length); /* mapped a moment ago */
  if (is_new && tried >= 0)
    (void)close(tried); /* nothing in it */
  return bytes != MAP_FAILED || !can_be_tried;
}
