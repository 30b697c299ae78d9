/* Attributes and relations of block devices in sysfs, by device number. */
#ifndef TRACEKIT_PLAY_SYSFS_H
#define TRACEKIT_PLAY_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SYSFS_SET_MAX 512U

/* Block devices that share storage with one of them. */
struct sysfs_set {
  uint32_t count;
  dev_t devices[SYSFS_SET_MAX];
  bool is_full;    /* there were more */
  char holder[64]; /* a device built upon one of them, such as dm-0; "" if none */
};

/* Reads the attribute `name` of a device, or of the whole device when it is a partition, without
 * its final newline. Returns 0 or -errno. */
int sysfs_read(dev_t device, const char *name, char *text, size_t size);

/* Fills `set` with the device, its partitions, the whole device it is a partition of, what it is
 * made of, and what is built upon it, at any distance. Returns 0 or -errno. */
int sysfs_related(dev_t device, struct sysfs_set *set);

/* Returns whether the set holds the device. */
bool sysfs_set_has(const struct sysfs_set *set, dev_t device);

/* Returns the number of a partition on its disk, 0 for a whole device. */
unsigned sysfs_partition_number(dev_t device);

#endif
