/* libblkid's opinion of what a target holds, by the program blkid(8). */
#ifndef TRACEKIT_PLAY_BLKID_H
#define TRACEKIT_PLAY_BLKID_H

#include "play/signature.h"

/* Adds what blkid finds in the file or device to `found`, by our names where we have one;
 * "ambivalent" when it finds several that exclude each other. Returns 0, -ENOENT when the program
 * is not there or cannot be started, -EIO when it failed. */
int blkid_find(int fd, struct signature_set *found);

#endif
