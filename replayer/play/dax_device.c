#include "play/dax_device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/fault_guard.h"
#include "play/number.h"

/* Reads the attribute `name` of a character device, without its final newline. */
static int read_attribute(dev_t device, const char *name, char *text, size_t size) {
  char path[PATH_MAX];
  (void)snprintf(path, sizeof path, "/sys/dev/char/%u:%u/%s", major(device), minor(device), name);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return -errno;
  char *line = fgets(text, (int)size, file);
  (void)fclose(file); /* only read */
  if (line == NULL)
    return -EIO;
  text[strcspn(text, "\n")] = '\0';
  return 0;
}

static int read_number(dev_t device, const char *name, uint64_t *number) {
  char text[32];
  int rc = read_attribute(device, name, text, sizeof text);
  return rc == 0 ? number_parse(text, 1, INT64_MAX, number) : rc;
}

bool dax_device_is(dev_t device) {
  char path[64];
  char link[PATH_MAX];
  (void)snprintf(path, sizeof path, "/sys/dev/char/%u:%u/subsystem", major(device), minor(device));
  ssize_t length = readlink(path, link, sizeof link - 1);
  if (length <= 0)
    return false;
  link[length] = '\0';
  const char *slash = strrchr(link, '/');
  return slash != NULL && strcmp(slash + 1, "dax") == 0;
}

int dax_device_size(dev_t device, uint64_t *size_bytes, uint64_t *align_bytes) {
  int rc = read_number(device, "size", size_bytes);
  /* Before Linux 5.10 only the region says it. */
  if (rc == 0 && read_number(device, "align", align_bytes) != 0)
    rc = read_number(device, "../dax_region/align", align_bytes);
  return rc;
}

int dax_device_identity(dev_t device, char *text, size_t size) {
  uint64_t size_bytes;
  uint64_t align_bytes;
  /* The namespace that the device is made of. */
  if (read_attribute(device, "../uuid", text, size) == 0 && text[0] != '\0')
    return 0;
  int rc = dax_device_size(device, &size_bytes, &align_bytes);
  if (rc != 0)
    return rc;
  int length = snprintf(text, size, "%u:%u:%llu", major(device), minor(device),
                        (unsigned long long)size_bytes);
  return length > 0 && (size_t)length < size ? 0 : -ENAMETOOLONG;
}

static bool is_node_of(const char *path, dev_t device) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == device;
}

static bool has_open(const char *pid, dev_t device) {
  char path[PATH_MAX];
  (void)snprintf(path, sizeof path, "/proc/%s/fd", pid);
  DIR *folder = opendir(path);
  if (folder == NULL)
    return false; /* it has ended, or is a stranger's */
  bool is_found = false;
  for (struct dirent *entry = readdir(folder); entry != NULL && !is_found;
       entry = readdir(folder)) {
    (void)snprintf(path, sizeof path, "/proc/%s/fd/%s", pid, entry->d_name);
    is_found = is_node_of(path, device);
  }
  (void)closedir(folder); /* only read */
  return is_found;
}

/* A process may have closed the device and still use it by its mapping. */
static bool has_mapped(const char *pid, dev_t device) {
  char path[PATH_MAX];
  (void)snprintf(path, sizeof path, "/proc/%s/maps", pid);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return false;
  char *line = NULL;
  size_t capacity = 0;
  bool is_found = false;
  while (!is_found && getline(&line, &capacity, file) > 0) {
    line[strcspn(line, "\n")] = '\0';
    const char *name = strchr(line, '/');
    is_found = name != NULL && strncmp(name, "/dev/", 5) == 0 && is_node_of(name, device);
  }
  free(line);
  (void)fclose(file); /* only read */
  return is_found;
}

int dax_device_check(dev_t device, char why[GUARD_REASON_BYTES]) {
  /* The kernel has no exclusive open for these devices, so every process is asked. */
  DIR *folder = opendir("/proc");
  if (folder == NULL) {
    (void)snprintf(why, GUARD_REASON_BYTES, "cannot list the processes: %s", strerror(errno));
    return -EBUSY;
  }
  long self = getpid();
  int rc = 0;
  for (struct dirent *entry = readdir(folder); entry != NULL && rc == 0; entry = readdir(folder)) {
    uint64_t pid;
    bool is_other = number_parse(entry->d_name, 1, INT_MAX, &pid) == 0 && pid != (uint64_t)self;
    if (is_other && (has_open(entry->d_name, device) || has_mapped(entry->d_name, device))) {
      (void)snprintf(why, GUARD_REASON_BYTES, "it is in use by the process %.20s", entry->d_name);
      rc = -EBUSY;
    }
  }
  (void)closedir(folder); /* only read */
  return rc;
}

int dax_device_signatures(int fd, uint64_t size_bytes, struct signature_set *found) {
  void *bytes = mmap(NULL, (size_t)size_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (bytes == MAP_FAILED)
    return -errno;
  int rc = fault_guard_install();
  if (rc == 0)
    rc = signature_find_mapped(bytes, size_bytes, found);
  (void)munmap(bytes, (size_t)size_bytes); /* ours, so it cannot fail */
  return rc;
}
