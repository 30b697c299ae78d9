#include "play/blocking.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/blkzoned.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "play/transfer.h"

static int flush(const struct target *target) {
  uint32_t tries = 0;
  while (fdatasync(target->fd) != 0)
    if (!transfer_goes_on(&tries))
      return -errno;
  return 0;
}

static int allocate(const struct target *target, int mode, const struct request *request) {
  uint32_t tries = 0;
  while (fallocate(target->fd, mode | FALLOC_FL_KEEP_SIZE, (off_t)request->offset_bytes,
                   (off_t)request->length_bytes) != 0)
    if (!transfer_goes_on(&tries))
      return -errno;
  return 0;
}

static int discard(const struct target *target, const struct request *request) {
  if (target->kind != TARGET_DEVICE)
    return allocate(target, FALLOC_FL_PUNCH_HOLE, request);
  uint64_t range[2] = {request->offset_bytes, request->length_bytes};
  return ioctl(target->fd, BLKDISCARD, range) == 0 ? 0 : -errno;
}

/* Zeroes by hand, a buffer at a time, where the file system has no zero range. */
static int write_zeroes(const struct target *target, const struct buffers *buffers,
                        const struct request *request) {
  if (target->can_zero)
    return allocate(target, FALLOC_FL_ZERO_RANGE, request);
  int rc = 0;
  for (uint64_t done = 0; done < request->length_bytes && rc == 0;) {
    uint64_t left = request->length_bytes - done;
    uint64_t size = left < buffers->transfer_bytes ? left : buffers->transfer_bytes;
    rc = transfer_write(target->fd, buffers->zeroes, (size_t)size, request->offset_bytes + done, 0);
    done += size;
  }
  return rc;
}

static int write_data(const struct target *target, const struct buffers *buffers,
                      const struct request *request) {
  int rc = (request->flags & BLOCK_PREFLUSH) != 0 ? flush(target) : 0;
  if (rc != 0)
    return rc;
  int flags = (request->flags & BLOCK_FUA) != 0 ? RWF_DSYNC : 0;
  return transfer_write(target->fd, buffers_pattern_at(buffers, request->offset_bytes),
                        (size_t)request->length_bytes, request->offset_bytes, flags);
}

/* The kernel takes ranges of whole zones. */
static int manage_zone(const struct target *target, const struct request *request) {
  static const unsigned long calls[BLOCK_OPERATIONS] = {[BLOCK_ZONE_RESET] = BLKRESETZONE,
                                                        [BLOCK_ZONE_RESET_ALL] = BLKRESETZONE,
                                                        [BLOCK_ZONE_OPEN] = BLKOPENZONE,
                                                        [BLOCK_ZONE_CLOSE] = BLKCLOSEZONE,
                                                        [BLOCK_ZONE_FINISH] = BLKFINISHZONE};
  uint64_t first = 0;
  uint64_t length = target->size_bytes / SECTOR_BYTES;
  if (target->zones == NULL)
    return -EOPNOTSUPP;
  if (request->operation != BLOCK_ZONE_RESET_ALL)
    zone_map_zone_of(target->zones, request->offset_bytes / SECTOR_BYTES, &first, &length);
  struct blk_zone_range range = {.sector = first, .nr_sectors = length};
  return ioctl(target->fd, calls[request->operation], &range) == 0 ? 0 : -errno;
}

/* One call or more for each operation. */
int blocking_run(const struct target *target, const struct buffers *buffers, unsigned char *sink,
                 const struct request *request) {
  switch ((enum block_operation)request->operation) {
  case BLOCK_READ:
    return transfer_read(target->fd, sink, (size_t)request->length_bytes, request->offset_bytes);
  case BLOCK_WRITE:
    return write_data(target, buffers, request);
  case BLOCK_FLUSH:
    return flush(target);
  case BLOCK_DISCARD:
    return discard(target, request);
  case BLOCK_WRITE_ZEROES:
    return write_zeroes(target, buffers, request);
  case BLOCK_ZONE_APPEND: /* where it lies its engine knows */
    return write_data(target, buffers, request);
  case BLOCK_ZONE_RESET:
  case BLOCK_ZONE_RESET_ALL:
  case BLOCK_ZONE_OPEN:
  case BLOCK_ZONE_CLOSE:
  case BLOCK_ZONE_FINISH:
    return manage_zone(target, request);
  }
  return -EINVAL;
}

void blocking_place(const struct target *target, struct request *request) {
  uint64_t sector = request->offset_bytes / SECTOR_BYTES;
  if (target->zones == NULL)
    return;
  (void)zone_map_follow(target->zones, request->operation, &sector,
                        request->length_bytes / SECTOR_BYTES); /* the device rejects by itself */
  if (request->operation == BLOCK_ZONE_APPEND)
    request->operation = BLOCK_WRITE;
  request->offset_bytes = sector * SECTOR_BYTES;
}
