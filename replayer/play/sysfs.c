#include "play/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/number.h"

/* Makes the path of `name` under a device's folder; false when it is too long. */
static bool path_of(dev_t device, const char *name, char *path, size_t size) {
  int length = snprintf(path, size, "/sys/dev/block/%u:%u/%s", major(device), minor(device), name);
  return length > 0 && (size_t)length < size;
}

static int read_text(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  ssize_t length = read(fd, text, size - 1);
  int rc = length < 0 ? -errno : 0;
  (void)close(fd); /* only read */
  if (rc != 0)
    return rc;
  text[length] = '\0';
  text[strcspn(text, "\n")] = '\0';
  return 0;
}

int sysfs_read(dev_t device, const char *name, char *text, size_t size) {
  char path[PATH_MAX];
  char below[NAME_MAX];
  if (!path_of(device, name, path, sizeof path))
    return -ENAMETOOLONG;
  int rc = read_text(path, text, size);
  if (rc != -ENOENT || sysfs_partition_number(device) == 0)
    return rc;
  int length = snprintf(below, sizeof below, "../%s", name);
  if (length < 0 || (size_t)length >= sizeof below || !path_of(device, below, path, sizeof path))
    return -ENAMETOOLONG;
  return read_text(path, text, size);
}

unsigned sysfs_partition_number(dev_t device) {
  char path[PATH_MAX];
  char text[32];
  uint64_t number;
  if (!path_of(device, "partition", path, sizeof path) || read_text(path, text, sizeof text) != 0 ||
      number_parse(text, 1, UINT_MAX, &number) != 0)
    return 0;
  return (unsigned)number;
}

/* Reads a "dev" attribute, MAJOR:MINOR. */
static int read_number(const char *path, dev_t *device) {
  char text[64];
  uint64_t major_number;
  uint64_t minor_number;
  int rc = read_text(path, text, sizeof text);
  if (rc != 0)
    return rc;
  char *colon = strchr(text, ':');
  if (colon == NULL)
    return -EINVAL;
  *colon = '\0';
  if (number_parse(text, 0, UINT32_MAX, &major_number) != 0 ||
      number_parse(colon + 1, 0, UINT32_MAX, &minor_number) != 0)
    return -EINVAL;
  *device = makedev((unsigned)major_number, (unsigned)minor_number);
  return 0;
}

static const char *folder_of(enum sysfs_relation relation) {
  switch (relation) {
  case SYSFS_PARTITIONS:
    return ".";
  case SYSFS_HOLDERS:
    return "holders";
  case SYSFS_SLAVES:
    return "slaves";
  case SYSFS_SG:
    return "device/scsi_generic";
  case SYSFS_BSG:
    return "device/bsg";
  }
  return ".";
}

/* Makes the path of an attribute of the device behind a folder's entry; false when too long. */
static bool path_in(const char *folder, const char *entry, const char *name, char *path,
                    size_t size) {
  int length = snprintf(path, size, "%s/%s/%s", folder, entry, name);
  return length > 0 && (size_t)length < size;
}

/* A partition is an entry with a "partition" file. */
int sysfs_list(dev_t device, enum sysfs_relation relation, struct sysfs_set *set) {
  char folder_path[PATH_MAX];
  char path[PATH_MAX];
  dev_t found;
  int rc = 0;
  set->count = 0;
  if (!path_of(device, folder_of(relation), folder_path, sizeof folder_path))
    return -ENAMETOOLONG;
  DIR *folder = opendir(folder_path);
  if (folder == NULL)
    return errno == ENOENT ? 0 : -errno;
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    const char *name = entry->d_name;
    bool is_device =
        name[0] != '.' &&
        (relation != SYSFS_PARTITIONS ||
         (path_in(folder_path, name, "partition", path, sizeof path) && access(path, F_OK) == 0));
    if (!is_device || !path_in(folder_path, name, "dev", path, sizeof path))
      continue;
    int read_rc = read_number(path, &found);
    if (read_rc == -ENOENT || read_rc == -ENODEV) /* it has gone, or is none */
      continue;
    if (read_rc == 0 && set->count == SYSFS_SET_MAX)
      read_rc = -E2BIG;
    if (read_rc == 0)
      set->devices[set->count++] = found;
    else
      rc = read_rc;
  }
  (void)closedir(folder); /* only read */
  return rc;
}

int sysfs_whole(dev_t partition, dev_t *whole) {
  char path[PATH_MAX];
  return path_of(partition, "../dev", path, sizeof path) ? read_number(path, whole) : -ENAMETOOLONG;
}

bool sysfs_has(dev_t device) {
  char path[PATH_MAX];
  return path_of(device, "dev", path, sizeof path) && access(path, R_OK) == 0;
}

void sysfs_name(dev_t device, char name[SYSFS_NAME_BYTES]) {
  char path[PATH_MAX];
  char link[PATH_MAX];
  (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u", major(device), minor(device));
  ssize_t length = readlink(path, link, sizeof link - 1);
  link[length < 0 ? 0 : length] = '\0';
  const char *slash = strrchr(link, '/');
  if (slash == NULL)
    (void)snprintf(name, SYSFS_NAME_BYTES, "%u:%u", major(device), minor(device));
  else
    (void)snprintf(name, SYSFS_NAME_BYTES, "%.63s", slash + 1);
}

/* A node counts only when it bears the device's numbers. */
static int open_node(const char *path, dev_t device, int flags) {
  struct stat status;
  int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT || errno == ENXIO ? -ENODEV : -errno;
  if (fstat(fd, &status) == 0 && S_ISBLK(status.st_mode) && status.st_rdev == device)
    return fd;
  (void)close(fd); /* only opened */
  return -ENODEV;
}

int sysfs_open(dev_t device, int flags) {
  char name[SYSFS_NAME_BYTES];
  char path[PATH_MAX];
  sysfs_name(device, name);
  for (char *at = name; *at != '\0'; at++) /* as in cciss!c0d0 */
    *at = *at == '!' ? '/' : *at;
  (void)snprintf(path, sizeof path, "/dev/%s", name);
  int fd = open_node(path, device, flags);
  if (fd != -ENODEV)
    return fd;
  (void)snprintf(path, sizeof path, "/dev/block/%u:%u", major(device), minor(device));
  return open_node(path, device, flags);
}
