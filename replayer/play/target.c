#include "play/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play/capabilities.h"
#include "play/clock.h"
#include "play/dax_device.h"
#include "play/diag.h"
#include "play/identity.h"
#include "play/nvme_device.h"
#include "play/process_limits.h"
#include "play/target_safety.h"

#define CLAIM_TRIES 10U
#define CLAIM_PAUSE_NS 20000000U

const char *target_kind_name(enum target_kind kind) {
  switch (kind) {
  case TARGET_NONE:
    return "none";
  case TARGET_MADE_FILE:
    return "made file";
  case TARGET_FILE:
    return "file";
  case TARGET_DEVICE:
    return "block device";
  case TARGET_DAX:
    return "dax device";
  }
  return "unknown";
}

/* Reopens the same object (not the same name) with other flags. */
static int reopen(const struct target *target, int flags) {
  char name[64];
  (void)snprintf(name, sizeof name, "/proc/self/fd/%d", target->fd); /* always fits */
  return open(name, flags | O_CLOEXEC);
}

/* Alignment in bytes that all of the plan's addresses and lengths have. */
static uint64_t plan_alignment(const struct block_target *plan_target) {
  uint64_t bits = plan_target->address_bits;
  return bits == 0 ? UINT64_C(1) << 30 : (bits & (~bits + 1)) * SECTOR_BYTES;
}

/* Turns to O_DIRECT where that is asked, the file system can and the plan's addresses allow it. */
static int choose_direct(struct target *target, const struct block_target *plan_target,
                         const struct target_rules *rules) {
  enum target_direct asked = rules->direct;
  target->direct_note = "";
  if (target->kind == TARGET_DAX) {
    target->direct_note = "it is only mapped";
    return 0;
  }
  if (asked == DIRECT_OFF) {
    target->direct_note = "buffered I/O was asked for";
    return 0;
  }
  int flags = fcntl(target->fd, F_GETFL);
  if (flags < 0)
    return target_fail(target, "cannot read its flags", errno);
  target->align_bytes = capabilities_direct_alignment(target->fd);
  if (target->align_bytes == 0 || fcntl(target->fd, F_SETFL, flags | O_DIRECT) != 0)
    target->direct_note = "the file system rejects O_DIRECT";
  else if (plan_alignment(plan_target) % target->align_bytes != 0 && !rules->expands)
    target->direct_note = "some addresses or lengths are not aligned for O_DIRECT";
  else
    target->is_direct = true;
  target->expands = target->is_direct && rules->expands;
  if (target->is_direct)
    return 0;
  if (asked == DIRECT_ON)
    return target_reject(target, EINVAL, target->direct_note);
  return fcntl(target->fd, F_SETFL, flags & ~O_DIRECT) == 0
             ? 0
             : target_fail(target, "cannot turn O_DIRECT off", errno);
}

/* Says why a file cannot be made as long as the plan needs; returns -error. */
static int fail_length(const struct target *target, uint64_t needed_bytes, int error) {
  if (error != EFBIG)
    return target_fail(target, "cannot make it as long as the plan needs", error);
  return target_reject(target, error,
                       needed_bytes > process_limits_get(RLIMIT_FSIZE)
                           ? "the plan needs a longer file than this process may write; raise the "
                             "limit (ulimit -f)"
                           : "its file system takes no file as long as the plan needs; choose "
                             "another one, such as XFS, or a device");
}

/* O_EXCL makes sure that the file is ours, and so may be written and removed. */
static int make_file(struct target *target, uint64_t needed_bytes) {
  target->kind = TARGET_MADE_FILE;
  target->fd = open(target->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (target->fd < 0)
    return target_fail(target, "cannot make the file", errno);
  struct stat status;
  target->size_bytes = needed_bytes;
  target->may_write = true;
  int rc = fstat(target->fd, &status) == 0 ? 0 : -errno;
  if (rc == 0) {
    /* From here on target_close knows the file again, and removes it. */
    target->device = status.st_dev;
    target->inode = status.st_ino;
    rc = ftruncate(target->fd, (off_t)needed_bytes) == 0 ? 0 : -errno;
  }
  if (rc == 0)
    return 0;
  target_close(target, false);
  return fail_length(target, needed_bytes, -rc);
}

/* A dry run makes nothing: it only says what would be made, by a nameless file in its place. */
static int plan_file(struct target *target, const struct block_target *plan_target,
                     const struct target_rules *rules) {
  target->kind = TARGET_MADE_FILE;
  target->size_bytes = plan_target->needed_bytes;
  target->may_write = true;
  target->can_discard = true;
  target->can_zero = true;
  target->fd = capabilities_scratch_file(target->path);
  int error = target->fd < 0 ? -target->fd : 0;
  if (error == EOPNOTSUPP || error == EISDIR) { /* the file system has no nameless files */
    target->direct_note = "only a run can show whether the file system takes O_DIRECT";
    return 0;
  }
  if (error != 0)
    return target_fail(target, "cannot make the file", error);
  bool is_allowed = target->size_bytes <= process_limits_get(RLIMIT_FSIZE); /* see preflight */
  int rc = 0;
  if (is_allowed && ftruncate(target->fd, (off_t)target->size_bytes) != 0)
    rc = fail_length(target, target->size_bytes, errno);
  if (rc == 0)
    rc = choose_direct(target, plan_target, rules);
  capabilities_find(target->fd, &target->can_discard, &target->can_zero);
  (void)close(target->fd); /* nothing in it */
  target->fd = -1;
  return rc;
}

/* Whether a new file would stand among the nodes of devices, where only a mistyped name is new. */
static bool is_among_devices(const char *path) {
  char folder[PATH_MAX];
  struct stat place;
  struct stat devices;
  struct stat root;
  return capabilities_folder_of(path, folder, sizeof folder) == 0 && stat(folder, &place) == 0 &&
         stat("/dev", &devices) == 0 && stat("/", &root) == 0 && place.st_dev == devices.st_dev &&
         devices.st_dev != root.st_dev;
}

/* The generic character device of an NVMe namespace has the bytes of a block device, which stands
 * for it from here on: it can be asked about and claimed. */
static int take_namespace(struct target *target, struct stat *status) {
  if (fstat(target->fd, status) != 0)
    return -errno;
  int fd = S_ISCHR(status->st_mode) ? nvme_device_block_of(status->st_rdev) : -ENOTTY;
  if (fd == -ENOTTY)
    return 0;
  if (fd < 0)
    return fd;
  (void)close(target->fd); /* an O_PATH descriptor, nothing to lose */
  target->fd = fd;
  return fstat(fd, status) == 0 ? 0 : -errno;
}

/* Looks at what the path names, by file descriptor, so that it cannot be swapped meanwhile. */
static int identify(struct target *target) {
  struct stat status;
  int found = take_namespace(target, &status);
  if (found != 0)
    return target_fail(target, "cannot look at it", -found);
  if (S_ISBLK(status.st_mode)) {
    target->kind = TARGET_DEVICE;
    target->device = status.st_rdev;
  } else if (S_ISREG(status.st_mode)) {
    target->kind = TARGET_FILE;
    target->device = status.st_dev;
    target->inode = status.st_ino;
    target->size_bytes = (uint64_t)status.st_size;
  } else if (S_ISCHR(status.st_mode) && dax_device_is(status.st_rdev)) {
    target->kind = TARGET_DAX;
    target->device = status.st_rdev;
  } else {
    return target_reject(target, EPERM,
                         "it is neither a regular file nor a block device nor a DAX device");
  }
  int rc = 0;
  if (target->kind == TARGET_DEVICE)
    rc = identity_of_device(target->device, target->token, sizeof target->token);
  else if (target->kind == TARGET_DAX)
    rc = dax_device_identity(target->device, target->token, sizeof target->token);
  else
    rc = identity_of_file(target->fd, target->token, sizeof target->token);
  return rc == 0 ? 0 : target_fail(target, "cannot identify it", -rc);
}

/* As reopen, but a device that somebody claims for a moment only, to probe it, is asked again. */
static int reopen_patiently(const struct target *target, int flags) {
  int fd = reopen(target, flags);
  for (unsigned tries = 0; fd < 0 && errno == EBUSY && tries < CLAIM_TRIES; tries++) {
    clock_sleep_until(clock_now_ns() + CLAIM_PAUSE_NS);
    fd = reopen(target, flags);
  }
  return fd;
}

/* Opens the object itself, exclusively if it is a device: from here on nobody can mount it. */
static int open_object(struct target *target) {
  int flags = target->may_write ? O_RDWR : O_RDONLY;
  if (target->kind == TARGET_DEVICE)
    flags |= O_EXCL;
  if (target->may_write && capabilities_is_read_only(target->fd))
    return target_reject(target, EROFS, "it is read-only: writes cannot be replayed there");
  int fd = reopen_patiently(target, flags);
  if (fd < 0 && errno == EBUSY)
    return target_reject(target, EBUSY, "the kernel says that the device is in use");
  if (fd < 0)
    return target_fail(target, "cannot open it", errno);
  (void)close(target->fd); /* an O_PATH descriptor, nothing to lose */
  target->fd = fd;
  if (target->kind == TARGET_DEVICE && ioctl(fd, BLKGETSIZE64, &target->size_bytes) != 0)
    return target_fail(target, "cannot read its size", errno);
  int zoned = target->kind == TARGET_DEVICE ? zone_map_open(&target->zones, fd, true) : 0;
  if (zoned != 0)
    return target_fail(target, "cannot read its zones", -zoned);
  if (target->kind == TARGET_DAX) {
    int rc = dax_device_size(target->device, &target->size_bytes, &target->map_align_bytes);
    return rc == 0 ? 0 : target_fail(target, "cannot read its size", -rc);
  }
  return 0;
}

/* Each step uses the descriptor of the one before, so that no other object can take the path
 * meanwhile. */
static int open_existing(struct target *target, const struct block_target *plan_target,
                         const struct target_rules *rules) {
  int rc = identify(target);
  if (rc == 0)
    rc = target_safety_begin(target, rules);
  if (rc == 0)
    rc = target_check_use(target);
  if (rc == 0)
    rc = open_object(target);
  if (rc == 0)
    rc = target_check_content(target, rules, rules->may_create);
  if (rc == 0)
    rc = choose_direct(target, plan_target, rules);
  if (rc != 0) {
    target_close(target, true);
    return rc;
  }
  if (target->kind != TARGET_DAX) /* that one can neither */
    capabilities_find(target->fd, &target->can_discard, &target->can_zero);
  return 0;
}

/* Whole sectors need a file of whole sectors. */
static int round_up(struct target *target) {
  uint64_t rest = target->size_bytes % target->align_bytes;
  uint64_t size_bytes = target->size_bytes + (rest == 0 ? 0 : target->align_bytes - rest);
  if (ftruncate(target->fd, (off_t)size_bytes) != 0)
    return target_fail(target, "cannot make it as long as its sectors need", errno);
  target->size_bytes = size_bytes;
  return 0;
}

/* Nothing is made among devices, where a mistyped name would become a file in memory. */
static int open_made(struct target *target, const struct block_target *plan_target,
                     const struct target_rules *rules) {
  if (is_among_devices(target->path))
    return target_reject(target, ENOENT, "there is no such device");
  if (!rules->may_create)
    return plan_file(target, plan_target, rules);
  int rc = make_file(target, plan_target->needed_bytes);
  if (rc != 0)
    return rc;
  rc = choose_direct(target, plan_target, rules);
  if (rc == 0 && target->expands)
    rc = round_up(target);
  if (rc != 0) {
    target_close(target, false);
    return rc;
  }
  capabilities_find(target->fd, &target->can_discard, &target->can_zero);
  return 0;
}

static void start_target(struct target *target, const char *path,
                         const struct block_target *plan_target) {
  memset(target, 0, sizeof *target);
  target->fd = -1;
  target->path = path;
  target->align_bytes = SECTOR_BYTES;
  target->map_align_bytes = 1;
  target->needed_bytes = plan_target->needed_bytes;
  target->direct_note = "";
  memcpy(target->label, plan_target->label, sizeof plan_target->label);
}

int target_open(struct target *target, const char *path, const struct block_target *plan_target,
                const struct target_rules *rules) {
  start_target(target, path, plan_target);
  target->fd = open(path, O_PATH | O_CLOEXEC);
  if (target->fd >= 0)
    return open_existing(target, plan_target, rules);
  if (errno == ENOENT)
    return open_made(target, plan_target, rules);
  return target_fail(target, "cannot look at it", errno);
}

void target_open_none(struct target *target, const struct block_target *plan_target) {
  start_target(target, NULL, plan_target);
  target->kind = TARGET_NONE;
  target->size_bytes = UINT64_MAX;
  target->may_write = true;
  target->can_discard = true;
  target->can_zero = true;
}

/* Removes the file that we made, unless another one has taken its name meanwhile. */
static void remove_made(const struct target *target) {
  struct stat status;
  bool is_ours = lstat(target->path, &status) == 0 && status.st_dev == target->device &&
                 status.st_ino == target->inode;
  if (is_ours && unlink(target->path) != 0)
    diag("target %s=%s: cannot remove it: %s", target->label, target->path, strerror(errno));
}

bool target_has_zones(const struct target *target) {
  return target->zones != NULL || target->kind == TARGET_NONE;
}

void target_close(struct target *target, bool keep) {
  guard_release(&target->guard);
  zone_map_close(target->zones);
  target->zones = NULL;
  if (target->fd < 0)
    return;
  if (target->kind == TARGET_MADE_FILE && !keep)
    remove_made(target);
  /* A write-back error belongs to the requests; flushes of the plan have reported it. */
  (void)close(target->fd);
  target->fd = -1;
}
