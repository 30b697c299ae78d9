#include "play/nvme_device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/nvme_ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/number.h"
#include "play/sysfs.h"

#define BLOCK_PREFIX "nvme"
#define GENERIC_PREFIX "ng"

/* The name of the device that the kernel has beside the one with this number: both stand below one
 * controller or subsystem and differ in the prefix alone. Writes also its folder in sysfs. */
static int name_of_twin(const char *kind, dev_t device, const char *own, const char *other,
                        char name[NAME_MAX], char folder[PATH_MAX]) {
  char link[64];
  char place[PATH_MAX];
  (void)snprintf(link, sizeof link, "/sys/dev/%s/%u:%u", kind, major(device), minor(device));
  if (realpath(link, place) == NULL)
    return -errno;
  char *slash = strrchr(place, '/');
  if (slash == NULL || strncmp(slash + 1, own, strlen(own)) != 0)
    return -ENOTTY;
  int length = snprintf(name, NAME_MAX, "%s%s", other, slash + 1 + strlen(own));
  *slash = '\0';
  if (length < 0 || length >= NAME_MAX)
    return -ENAMETOOLONG;
  length = snprintf(folder, PATH_MAX, "%s/%s", place, name);
  return length > 0 && length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Opens /dev/NAME, which must be the node with the number that sysfs has for it. */
static int open_node(const char *name, const char *folder, mode_t type, int flags) {
  char path[PATH_MAX];
  char number[32] = "";
  struct stat status;
  unsigned major_number;
  unsigned minor_number;
  int length = snprintf(path, sizeof path, "%s/dev", folder);
  FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
  if (file == NULL)
    return -ENODEV;
  bool is_read = fgets(number, sizeof number, file) != NULL;
  (void)fclose(file); /* only read */
  if (!is_read || sscanf(number, "%u:%u", &major_number, &minor_number) != 2)
    return -ENODEV;
  (void)snprintf(path, sizeof path, "/dev/%s", name); /* always fits */
  int fd = open(path, flags | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? -ENODEV : -errno;
  if (fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == type &&
      status.st_rdev == makedev(major_number, minor_number))
    return fd;
  (void)close(fd); /* another device bears its name */
  return -ENODEV;
}

int nvme_device_block_of(dev_t generic) {
  char name[NAME_MAX];
  char folder[PATH_MAX];
  int rc = name_of_twin("char", generic, GENERIC_PREFIX, BLOCK_PREFIX, name, folder);
  return rc == 0 ? open_node(name, folder, S_IFBLK, O_PATH) : rc == -ENOENT ? -ENOTTY : rc;
}

/* A number of the block device's queue; 0 where it has none. */
static uint64_t limit_of(dev_t block, const char *name) {
  char text[32];
  uint64_t value = 0;
  return sysfs_read(block, name, text, sizeof text) == 0 &&
                 number_parse(text, 0, UINT64_MAX, &value) == 0
             ? value
             : 0;
}

int nvme_device_open(struct nvme_device *device, dev_t block, bool may_write) {
  char name[NAME_MAX];
  char folder[PATH_MAX];
  *device = (struct nvme_device){.fd = -1};
  if (sysfs_partition_number(block) != 0)
    return -ENODEV; /* its name would be that of no generic device, or of another one */
  int rc = name_of_twin("block", block, BLOCK_PREFIX, GENERIC_PREFIX, name, folder);
  if (rc != 0)
    return rc == -ENOTTY ? -ENODEV : rc;
  device->fd = open_node(name, folder, S_IFCHR, may_write ? O_RDWR : O_RDONLY);
  if (device->fd < 0)
    return device->fd;
  int id = ioctl(device->fd, NVME_IOCTL_ID);
  device->namespace_id = (uint32_t)id;
  device->block_bytes = (uint32_t)limit_of(block, "queue/logical_block_size");
  device->transfer_bytes = limit_of(block, "queue/max_hw_sectors_kb") * 1024;
  device->append_bytes = limit_of(block, "queue/zone_append_max_bytes");
  device->zeroes_bytes = limit_of(block, "queue/write_zeroes_max_bytes");
  if (id > 0 && device->block_bytes > 0 && device->transfer_bytes >= device->block_bytes)
    return 0;
  nvme_device_close(device);
  return -ENODEV;
}

void nvme_device_close(struct nvme_device *device) {
  if (device->fd >= 0)
    (void)close(device->fd); /* what was written was reported by its command */
  device->fd = -1;
}
