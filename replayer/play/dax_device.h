/* Device-DAX: persistent memory as a character device that is only mapped, never read. */
#ifndef TRACEKIT_PLAY_DAX_DEVICE_H
#define TRACEKIT_PLAY_DAX_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "play/signature.h"

/* Returns whether the character device is one of the kernel's dax bus. */
bool dax_device_is(dev_t device);

/* Reads size and alignment of mappings from sysfs. Returns 0 or -errno. */
int dax_device_size(dev_t device, uint64_t *size_bytes, uint64_t *align_bytes);

/* Writes what the device is: the UUID of its namespace, or "MAJOR:MINOR:BYTES" where it has none.
 * Returns 0 or -errno. */
int dax_device_identity(dev_t device, char *text, size_t size);

/* As signature_find, for a device open for reading. */
int dax_device_signatures(int fd, uint64_t size_bytes, struct signature_set *found);

#endif
