#include "play/identity.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/loop_device.h"
#include "play/sysfs.h"

/* Replaces what could not be typed as one word. */
static void make_word(char *text) {
  size_t length = strlen(text);
  while (length > 0 && text[length - 1] == ' ')
    text[--length] = '\0';
  for (char *at = text; *at != '\0'; at++)
    if (*at <= ' ' || *at > '~')
      *at = '_';
}

static int identify_hardware(dev_t device, char *text, size_t size) {
  /* A serial number stays with the device; numbers of the kernel change with the next boot. */
  static const char *const names[] = {"serial", "device/serial", "wwid", "device/wwid"};
  char value[128] = "";
  for (size_t i = 0; i < sizeof names / sizeof *names && value[0] == '\0'; i++) {
    if (sysfs_read(device, names[i], value, sizeof value) != 0)
      value[0] = '\0';
    make_word(value);
  }
  unsigned partition = sysfs_partition_number(device);
  int length;
  if (value[0] == '\0') {
    int rc = sysfs_read(device, "size", value, sizeof value);
    if (rc != 0)
      return rc;
    length = snprintf(text, size, "%u:%u:%s", major(device), minor(device), value);
  } else if (partition != 0) {
    length = snprintf(text, size, "%s-part%u", value, partition);
  } else {
    length = snprintf(text, size, "%s", value);
  }
  return length > 0 && (size_t)length < size ? 0 : -ENAMETOOLONG;
}

/* The whole disk where the device is a partition of one. */
static dev_t disk_of(dev_t device) {
  dev_t whole;
  bool has_disk = sysfs_partition_number(device) != 0 && sysfs_whole(device, &whole) == 0;
  return has_disk ? whole : device;
}

/* A loop device is what is behind it: its own number may be given to another file. */
static int add_backing(dev_t device, char *text, size_t size) {
  char behind[256];
  struct loop_backing backing;
  int rc = loop_device_look(device, &backing);
  if (rc != 0)
    return rc < 0 ? rc : 0;
  if (backing.is_device)
    rc = identity_of_device(backing.device, behind, sizeof behind);
  else
    (void)snprintf(behind, sizeof behind, "%u:%u:%llu:%llu:%llu", major(backing.device),
                   minor(backing.device), (unsigned long long)backing.inode,
                   (unsigned long long)backing.born_ns, (unsigned long long)backing.size_bytes);
  if (rc != 0)
    return rc;
  size_t used = strlen(text);
  int length =
      snprintf(text + used, size - used, "@%s+%llu+%llu", behind,
               (unsigned long long)backing.offset_bytes, (unsigned long long)backing.limit_bytes);
  return length > 0 && (size_t)length < size - used ? 0 : -ENAMETOOLONG;
}

int identity_of_device(dev_t device, char *text, size_t size) {
  int rc = identify_hardware(device, text, size);
  dev_t disk = disk_of(device);
  return rc == 0 && loop_device_is(disk) ? add_backing(disk, text, size) : rc;
}

int identity_of_file(int fd, char *text, size_t size) {
  char link[64];
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd); /* always fits */
  ssize_t length = readlink(link, text, size);
  if (length < 0)
    return -errno;
  if ((size_t)length >= size)
    return -ENAMETOOLONG;
  text[length] = '\0';
  return 0;
}
