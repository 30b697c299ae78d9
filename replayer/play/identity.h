/* What a target is, in words that fit no other: typed by the user before it may be written. */
#ifndef TRACEKIT_PLAY_IDENTITY_H
#define TRACEKIT_PLAY_IDENTITY_H

#include <stddef.h>
#include <sys/types.h>

/* Writes the serial number or WWID of a block device (with "-partN" for a partition), or
 * "MAJOR:MINOR:SECTORS" where it has none; of a loop device, "@" and what is behind it come after
 * that, so that the words fit no other file on the same number. Returns 0 or -errno. */
int identity_of_device(dev_t device, char *text, size_t size);

/* Writes the absolute path of an open file. Returns 0 or -errno. */
int identity_of_file(int fd, char *text, size_t size);

#endif
