#include "play/dax_device.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
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
