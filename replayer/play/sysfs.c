#include "play/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
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

bool sysfs_set_has(const struct sysfs_set *set, dev_t device) {
  for (uint32_t i = 0; i < set->count; i++)
    if (set->devices[i] == device)
      return true;
  return false;
}

/* Adds a device; false when it was there already or there is no space. */
static bool add(struct sysfs_set *set, dev_t device) {
  if (sysfs_set_has(set, device))
    return false;
  set->is_full = set->is_full || set->count == SYSFS_SET_MAX;
  if (set->is_full)
    return false;
  set->devices[set->count++] = device;
  return true;
}

/* Which of a device's folders lead to further devices. */
enum relation { PARTITIONS, HOLDERS, SLAVES };

static const char *folder_of(enum relation relation) {
  switch (relation) {
  case PARTITIONS:
    return ".";
  case HOLDERS:
    return "holders";
  case SLAVES:
    return "slaves";
  }
  return ".";
}

/* Makes the path of an attribute of the device behind a folder's entry; false when too long. */
static bool path_in(const char *folder, const char *entry, const char *name, char *path,
                    size_t size) {
  int length = snprintf(path, size, "%s/%s/%s", folder, entry, name);
  return length > 0 && (size_t)length < size;
}

/* Adds the devices in one folder of `device`. A partition is an entry with a "partition" file. */
static int add_folder(struct sysfs_set *set, dev_t device, enum relation relation) {
  char folder_path[PATH_MAX];
  char path[PATH_MAX];
  dev_t found;
  if (!path_of(device, folder_of(relation), folder_path, sizeof folder_path))
    return -ENAMETOOLONG;
  DIR *folder = opendir(folder_path);
  if (folder == NULL)
    return errno == ENOENT ? 0 : -errno;
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    const char *name = entry->d_name;
    bool is_device =
        name[0] != '.' &&
        (relation != PARTITIONS ||
         (path_in(folder_path, name, "partition", path, sizeof path) && access(path, F_OK) == 0));
    if (!is_device || !path_in(folder_path, name, "dev", path, sizeof path) ||
        read_number(path, &found) != 0)
      continue;
    if (relation == HOLDERS && set->holder[0] == '\0')
      (void)snprintf(set->holder, sizeof set->holder, "%.63s", name);
    (void)add(set, found); /* known already is as good */
  }
  (void)closedir(folder); /* only read */
  return 0;
}

/* What lies above: everything made from these bytes. The set itself is the list of work left. */
static int add_above(struct sysfs_set *set, uint32_t from) {
  int rc = 0;
  for (uint32_t i = from; i < set->count && rc == 0; i++) {
    rc = add_folder(set, set->devices[i], PARTITIONS);
    if (rc == 0)
      rc = add_folder(set, set->devices[i], HOLDERS);
  }
  return rc;
}

/* What lies below: everything whose bytes these are; not what else is on it. */
static int add_below(struct sysfs_set *set, dev_t device) {
  struct sysfs_set below = {.count = 1, .devices = {device}};
  int rc = 0;
  for (uint32_t i = 0; i < below.count && rc == 0; i++) {
    char path[PATH_MAX];
    dev_t whole;
    bool is_partition = sysfs_partition_number(below.devices[i]) != 0;
    if (is_partition && path_of(below.devices[i], "../dev", path, sizeof path) &&
        read_number(path, &whole) == 0)
      (void)add(&below, whole);
    rc = add_folder(&below, below.devices[i], SLAVES);
  }
  for (uint32_t i = 1; i < below.count; i++)
    (void)add(set, below.devices[i]);
  return rc;
}

int sysfs_related(dev_t device, struct sysfs_set *set) {
  char path[PATH_MAX];
  memset(set, 0, sizeof *set);
  /* Without sysfs nothing can be proven, and what cannot be proven is rejected. */
  if (!path_of(device, "dev", path, sizeof path) || access(path, R_OK) != 0)
    return -ENOENT;
  (void)add(set, device);
  int rc = add_above(set, 0);
  if (rc == 0)
    rc = add_below(set, device);
  return rc != 0 ? rc : set->is_full ? -E2BIG : 0;
}
