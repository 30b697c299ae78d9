#include "play/disk_space.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "play/number.h"
#include "play/process_limits.h"
#include "play/sysfs.h"

#define SECTOR 512U

/* What is left of one quota; UINT64_MAX where there is none or nobody may know it. */
static uint64_t quota_left(int fd, int kind, uint32_t owner) {
#ifdef SYS_quotactl_fd
  struct dqblk quota;
  memset(&quota, 0, sizeof quota);
  /* The header's own numbers overflow a signed shift. */
  unsigned command = QCMD((unsigned)Q_GETQUOTA, (unsigned)kind);
  if (syscall(SYS_quotactl_fd, fd, command, owner, &quota) != 0 || quota.dqb_bhardlimit == 0)
    return UINT64_MAX;
  uint64_t limit_bytes = quota.dqb_bhardlimit * UINT64_C(1024);
  return limit_bytes > quota.dqb_curspace ? limit_bytes - quota.dqb_curspace : 0;
#else
  (void)fd, (void)kind, (void)owner;
  return UINT64_MAX;
#endif
}

/* The privilege that lets a process use what is reserved also lets it pass quotas. */
static uint64_t quotas_left(int fd) {
  struct stat status;
  if (process_limits_may(CAP_SYS_RESOURCE) || fstat(fd, &status) != 0)
    return UINT64_MAX;
  bool is_new = S_ISDIR(status.st_mode);
  uint64_t user = quota_left(fd, USRQUOTA, is_new ? geteuid() : status.st_uid);
  uint64_t group = quota_left(fd, GRPQUOTA, is_new ? getegid() : status.st_gid);
  return user < group ? user : group;
}

int disk_space_of(int fd, struct disk_space *space) {
  struct statfs system;
  struct stat status;
  if (fstatfs(fd, &system) != 0 || fstat(fd, &status) != 0)
    return -errno;
  bool is_reserve_ours =
      (unsigned long)system.f_type == EXT4_SUPER_MAGIC && process_limits_may(CAP_SYS_RESOURCE);
  uint64_t blocks = (uint64_t)(is_reserve_ours ? system.f_bfree : system.f_bavail);
  uint64_t unit = (uint64_t)(system.f_frsize > 0 ? system.f_frsize : system.f_bsize);
  space->device = status.st_dev;
  /* A tmpfs without a limit, and file systems that do not count, have no blocks. */
  space->free_bytes = system.f_blocks == 0 || unit == 0 ? UINT64_MAX : blocks * unit;
  space->quota_bytes = quotas_left(fd);
  space->block_bytes = unit == 0 || unit > UINT32_MAX ? SECTOR : (uint32_t)unit;
  space->is_memory =
      (unsigned long)system.f_type == TMPFS_MAGIC || (unsigned long)system.f_type == RAMFS_MAGIC;
  space->has_holes = (unsigned long)system.f_type != MSDOS_SUPER_MAGIC &&
                     (unsigned long)system.f_type != EXFAT_SUPER_MAGIC;
  return 0;
}

/* A number of sysfs, 0 where there is none. */
static uint64_t attribute(dev_t device, const char *name) {
  char text[32];
  uint64_t value = 0;
  if (sysfs_read(device, name, text, sizeof text) != 0 ||
      number_parse(text, 0, UINT64_MAX, &value) != 0)
    return 0;
  return value;
}

int disk_space_behind_loop(dev_t device, uint64_t *offset_bytes) {
  char path[PATH_MAX];
  struct stat status;
  if (sysfs_read(device, "loop/backing_file", path, sizeof path) != 0)
    return -ENOTBLK;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0)
    return -errno;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    (void)close(fd); /* only read */
    return -ENOTBLK;
  }
  *offset_bytes = attribute(device, "loop/offset") + attribute(device, "start") * SECTOR;
  return fd;
}

uint64_t disk_space_begin(int fd, uint64_t offset_bytes, uint64_t size_bytes,
                          struct block_map *map) {
  /* Space that was given in advance shows as a hole, but is counted. */
  struct stat status;
  uint64_t data_bytes = 0;
  off_t at = 0;
  if (fstat(fd, &status) != 0)
    return 0;
  for (off_t end = 0; at < status.st_size; at = end) {
    at = lseek(fd, at, SEEK_DATA);
    end = at < 0 ? at : lseek(fd, at, SEEK_HOLE);
    if (at < 0 || end <= at)
      break;
    data_bytes += (uint64_t)(end - at);
    uint64_t first = (uint64_t)at > offset_bytes ? (uint64_t)at : offset_bytes;
    uint64_t last =
        (uint64_t)end < offset_bytes + size_bytes ? (uint64_t)end : offset_bytes + size_bytes;
    if (first < last)
      block_map_begin(map, first - offset_bytes, last - first);
  }
  uint64_t has_bytes = (uint64_t)status.st_blocks * SECTOR;
  return has_bytes > data_bytes ? has_bytes - data_bytes : 0;
}
