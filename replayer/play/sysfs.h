/* Attributes and relations of block devices in sysfs, by device number. */
#ifndef TRACEKIT_PLAY_SYSFS_H
#define TRACEKIT_PLAY_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SYSFS_SET_MAX 512U
#define SYSFS_NAME_BYTES 64U

/* Some block devices. */
struct sysfs_set {
  uint32_t count;
  dev_t devices[SYSFS_SET_MAX];
};

/* Where a device's folder has others. */
enum sysfs_relation { SYSFS_PARTITIONS, SYSFS_HOLDERS, SYSFS_SLAVES, SYSFS_SG, SYSFS_BSG };

/* Reads the attribute `name` of a device, or of the whole device when it is a partition, without
 * its final newline. Returns 0 or -errno. */
int sysfs_read(dev_t device, const char *name, char *text, size_t size);

/* Sets *set to the devices that have this relation to a device: its partitions, what is built upon
 * it, what it is built of, and its SCSI disk's character devices. Returns 0, -E2BIG when there are
 * more, or -errno. */
int sysfs_list(dev_t device, enum sysfs_relation relation, struct sysfs_set *set);

/* Sets *whole to the disk of a partition. Returns 0 or -errno. */
int sysfs_whole(dev_t partition, dev_t *whole);

/* Returns whether the kernel shows the device. */
bool sysfs_has(dev_t device);

/* Writes the kernel's name of a device, such as "sda1", or its numbers where it has none. */
void sysfs_name(dev_t device, char name[SYSFS_NAME_BYTES]);

/* Opens a node of the device in /dev. Returns a descriptor, -ENODEV when there is none, or
 * -errno. */
int sysfs_open(dev_t device, int flags);

/* Returns the number of a partition on its disk, 0 for a whole device. */
unsigned sysfs_partition_number(dev_t device);

#endif
