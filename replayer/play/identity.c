#include "play/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

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

int identity_of_device(dev_t device, char *text, size_t size) {
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
