#include "play/loop_device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/number.h"
#include "play/overlay.h"
#include "play/sysfs.h"

#define LOOP_MAJOR 7U

bool loop_device_is(dev_t device) {
  return major(device) == LOOP_MAJOR && sysfs_partition_number(device) == 0;
}

/* A device number as the kernel's loop driver writes it. */
static dev_t decoded(uint64_t number) {
  return makedev((unsigned)(number >> 8 & 0xfff),
                 (unsigned)((number & 0xff) | (number >> 12 & 0xfff00)));
}

/* Asks the kernel for the numbers. */
static int ask(dev_t device, struct loop_backing *backing) {
  struct loop_info64 info = {0};
  int fd = sysfs_open(device, O_RDONLY);
  if (fd < 0)
    return fd;
  int rc = ioctl(fd, LOOP_GET_STATUS64, &info) == 0 ? 0 : -errno;
  (void)close(fd); /* only read */
  if (rc != 0)
    return rc;
  backing->is_device = info.lo_rdevice != 0;
  backing->device = decoded(backing->is_device ? info.lo_rdevice : info.lo_device);
  backing->inode = backing->is_device ? 0 : info.lo_inode;
  backing->offset_bytes = info.lo_offset;
  backing->limit_bytes = info.lo_sizelimit;
  return 0;
}

/* Takes the numbers of what bears the name now; what it was attached to may have lost it. */
static bool is_named(const struct loop_backing *backing, const struct statx *named) {
  if (backing->is_device)
    return S_ISBLK(named->stx_mode) &&
           makedev(named->stx_rdev_major, named->stx_rdev_minor) == backing->device;
  return S_ISREG(named->stx_mode) && named->stx_ino == backing->inode &&
         makedev(named->stx_dev_major, named->stx_dev_minor) == backing->device;
}

static void take_numbers(struct loop_backing *backing, const struct statx *named) {
  backing->is_device = S_ISBLK(named->stx_mode);
  backing->device = backing->is_device ? makedev(named->stx_rdev_major, named->stx_rdev_minor)
                                       : makedev(named->stx_dev_major, named->stx_dev_minor);
  backing->inode = backing->is_device ? 0 : named->stx_ino;
}

/* What only the name can give. */
static void take_rest(struct loop_backing *backing, const struct statx *named) {
  if (backing->is_device)
    return;
  backing->size_bytes = named->stx_size;
  if ((named->stx_mask & STATX_BTIME) != 0)
    backing->born_ns = (uint64_t)named->stx_btime.tv_sec * 1000000000U + named->stx_btime.tv_nsec;
}

/* A file on an overlay shares its bytes with another one. */
static int take_below(struct loop_backing *backing, const char *name) {
  struct stat below;
  int fd = open(name, O_PATH | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? 0 : -errno;
  int rc = overlay_below(fd, &below);
  (void)close(fd); /* only a place */
  if (rc == 1) {
    backing->below_device = below.st_dev;
    backing->below_inode = below.st_ino;
  }
  return rc < 0 ? rc : 0;
}

static uint64_t read_bytes(dev_t device, const char *name) {
  char text[32];
  uint64_t bytes;
  bool is_read = sysfs_read(device, name, text, sizeof text) == 0 &&
                 number_parse(text, 0, INT64_MAX, &bytes) == 0;
  return is_read ? bytes : 0;
}

int loop_device_look(dev_t device, struct loop_backing *backing) {
  char name[PATH_MAX];
  struct statx named;
  memset(backing, 0, sizeof *backing);
  int rc = sysfs_read(device, "loop/backing_file", name, sizeof name);
  if (rc == -ENOENT || rc == -ENODEV || (rc == 0 && name[0] == '\0'))
    return 1; /* none, or no more */
  if (rc != 0)
    return rc;
  int looked = statx(AT_FDCWD, name, AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_BTIME, &named);
  rc = ask(device, backing);
  if (rc == -ENXIO) /* it was detached a moment ago */
    return 1;
  if (rc != 0 && looked == 0) {
    take_numbers(backing, &named);
    backing->offset_bytes = read_bytes(device, "loop/offset");
    backing->limit_bytes = read_bytes(device, "loop/sizelimit");
    rc = 0;
  }
  if (rc != 0 || looked != 0 || !is_named(backing, &named))
    return rc;
  take_rest(backing, &named);
  return backing->is_device || major(backing->device) != 0 ? 0 : take_below(backing, name);
}
