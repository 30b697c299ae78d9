#include "play/guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "play/sysfs.h"

#define REASON_PREFIX_BYTES 64

/* What is being protected: a set of block devices, or one file. */
struct subject {
  const struct sysfs_set *devices; /* NULL for a file */
  dev_t device;                    /* of the file's file system */
  ino_t inode;                     /* of the file */
};

static bool concerns(const struct subject *subject, const struct stat *status) {
  if (subject->devices != NULL)
    return S_ISBLK(status->st_mode) && sysfs_set_has(subject->devices, status->st_rdev);
  return S_ISREG(status->st_mode) && status->st_dev == subject->device &&
         status->st_ino == subject->inode;
}

/* Undoes the \ooo escapes of /proc files, in place. */
static void unescape(char *text) {
  char *out = text;
  for (char *in = text; *in != '\0'; out++) {
    bool is_escape = in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' &&
                     in[2] <= '7' && in[3] >= '0' && in[3] <= '7';
    *out = is_escape ? (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0')) : *in;
    in += is_escape ? 4 : 1;
  }
  *out = '\0';
}

static int busy(char *why, const char *what, const char *name) {
  (void)snprintf(why, GUARD_REASON_BYTES, "%.*s %.180s", REASON_PREFIX_BYTES, what, name);
  return -EBUSY;
}

/* Cuts a line into its fields, in place; returns how many there were, at most `limit`. */
static unsigned cut_fields(char *line, char **fields, unsigned limit) {
  unsigned count = 0;
  char *rest = NULL;
  for (char *field = strtok_r(line, " \t\n", &rest); field != NULL && count < limit;
       field = strtok_r(NULL, " \t\n", &rest))
    fields[count++] = field;
  return count;
}

/* One line of mountinfo: field 2 is major:minor, 4 the mount point, and after " - " come the type
 * and the source. Some file systems show an invented number, so the source is looked at as well. */
static bool line_mounts(char *line, const struct subject *subject, const char **point) {
  char *fields[64];
  unsigned major_number;
  unsigned minor_number;
  struct stat status;
  unsigned count = cut_fields(line, fields, 64);
  if (count < 5 || sscanf(fields[2], "%u:%u", &major_number, &minor_number) != 2)
    return false;
  *point = fields[4];
  if (sysfs_set_has(subject->devices, makedev(major_number, minor_number)))
    return true;
  for (unsigned i = 5; i + 2 < count; i++)
    if (strcmp(fields[i], "-") == 0) {
      unescape(fields[i + 2]);
      return fields[i + 2][0] == '/' && stat(fields[i + 2], &status) == 0 &&
             concerns(subject, &status);
    }
  return false;
}

static int check_mounts(const struct subject *subject, char *why) {
  FILE *file = fopen("/proc/self/mountinfo", "re");
  if (file == NULL)
    return busy(why, "cannot read the list of mounts:", strerror(errno));
  char *line = NULL;
  size_t capacity = 0;
  const char *point = "";
  int rc = 0;
  while (rc == 0 && getline(&line, &capacity, file) > 0)
    if (line_mounts(line, subject, &point))
      rc = busy(why, "it, a partition or a holder of it is mounted at", point);
  free(line);
  (void)fclose(file); /* only read */
  return rc;
}

/* A swap file or partition holds memory of any process: writing there would be fatal. */
static int check_swaps(const struct subject *subject, char *why) {
  FILE *file = fopen("/proc/swaps", "re");
  if (file == NULL)
    return errno == ENOENT ? 0 : busy(why, "cannot read the list of swaps:", strerror(errno));
  char *line = NULL;
  size_t capacity = 0;
  int rc = 0;
  while (rc == 0 && getline(&line, &capacity, file) > 0) {
    struct stat status;
    line[strcspn(line, " \t\n")] = '\0';
    unescape(line);
    if (line[0] == '/' && stat(line, &status) == 0 && concerns(subject, &status))
      rc = busy(why, "it is in use as swap:", line);
  }
  free(line);
  (void)fclose(file); /* only read */
  return rc;
}

/* A device number as the kernel's loop driver writes it. */
static dev_t decoded(uint64_t number) {
  return makedev((unsigned)(number >> 8 & 0xfff),
                 (unsigned)((number & 0xff) | (number >> 12 & 0xfff00)));
}

/* Asks the loop device `name` for the numbers of what is behind it. Returns 0 or -errno. */
static int ask_loop(const char *name, struct stat *behind) {
  char path[PATH_MAX];
  char reported[32];
  struct loop_info64 info = {0};
  int length = snprintf(path, sizeof path, "/dev/%s", name);
  if (length < 0 || (size_t)length >= sizeof path)
    return -ENAMETOOLONG;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  int rc = ioctl(fd, LOOP_GET_STATUS64, &info) == 0 ? 0 : -errno;
  (void)close(fd); /* only read */
  if (rc != 0)
    return rc;
  (void)snprintf(reported, sizeof reported, "loop%u", info.lo_number); /* always fits */
  if (strcmp(reported, name) != 0) /* another device bears its name */
    return -ENODEV;
  behind->st_mode = info.lo_rdevice != 0 ? S_IFBLK : S_IFREG;
  behind->st_rdev = decoded(info.lo_rdevice);
  behind->st_dev = decoded(info.lo_device);
  behind->st_ino = info.lo_inode;
  return 0;
}

/* Looks at what is behind a loop device by the name that it had. Returns 0, 1 when the device has
 * nothing behind it, or -errno. */
static int look_behind(const char *name, struct stat *behind) {
  char path[PATH_MAX];
  char backing[PATH_MAX];
  int length = snprintf(path, sizeof path, "/sys/block/%s/loop/backing_file", name);
  FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
  if (file == NULL)
    return 1;
  bool has_line = fgets(backing, sizeof backing, file) != NULL;
  (void)fclose(file); /* only read */
  if (!has_line)
    return 1;
  backing[strcspn(backing, "\n")] = '\0';
  return stat(backing, behind) == 0 ? 0 : -errno;
}

/* Rejects what the loop device in sysfs folder `name` stands on. A name may be gone, or be that of
 * something else by now, so the numbers count where the device may be asked. */
static int check_loop(const char *name, const struct subject *subject, char *why) {
  struct stat named;
  struct stat asked;
  int looked = look_behind(name, &named);
  if (looked == 1)
    return 0;
  int rc = ask_loop(name, &asked);
  if ((looked == 0 && concerns(subject, &named)) || (rc == 0 && concerns(subject, &asked)))
    return busy(why, "it is behind the loop device", name);
  /* Of a file the kernel will say whether anything else has it open. */
  return looked != 0 && rc != 0 && subject->devices != NULL
             ? busy(why, "cannot find out what is behind the loop device", name)
             : 0;
}

static int check_loops(const struct subject *subject, char *why) {
  DIR *folder = opendir("/sys/block");
  if (folder == NULL)
    return busy(why, "cannot list the block devices:", strerror(errno));
  int rc = 0;
  for (struct dirent *entry = readdir(folder); entry != NULL && rc == 0; entry = readdir(folder))
    if (strncmp(entry->d_name, "loop", 4) == 0)
      rc = check_loop(entry->d_name, subject, why);
  (void)closedir(folder); /* only read */
  return rc;
}

int guard_check_device(dev_t device, char why[GUARD_REASON_BYTES]) {
  /* Relations come first: what is mounted may be a partition of it or something built upon it. */
  struct sysfs_set *set = malloc(sizeof *set);
  if (set == NULL)
    return busy(why, "cannot check it:", strerror(ENOMEM));
  int rc = sysfs_related(device, set);
  if (rc != 0)
    rc = busy(why, "cannot find out what it is related to:", strerror(-rc));
  else if (set->holder[0] != '\0')
    rc = busy(why, "it, or a partition of it, is part of", set->holder);
  struct subject subject = {.devices = set};
  if (rc == 0)
    rc = check_mounts(&subject, why);
  if (rc == 0)
    rc = check_swaps(&subject, why);
  if (rc == 0)
    rc = check_loops(&subject, why);
  free(set);
  return rc;
}

int guard_check_file(dev_t device, ino_t inode, char why[GUARD_REASON_BYTES]) {
  struct subject subject = {.device = device, .inode = inode};
  int rc = check_swaps(&subject, why);
  return rc != 0 ? rc : check_loops(&subject, why);
}

bool guard_file_is_open(int fd) {
  /* The kernel grants a write lease only to the sole opener. */
  if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0)
    return errno == EAGAIN || errno == EBUSY;
  (void)fcntl(fd, F_SETLEASE, F_UNLCK); /* granted a moment ago */
  return false;
}
