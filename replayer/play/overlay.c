#include "play/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "play/mounts.h"
#include "play/processes.h"

/* Line of a mount: ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS] - TYPE SOURCE OPTIONS. */
enum { FIELD_ID, FIELD_ROOT = 3, FIELD_POINT, FIELDS_MAX = 64 };

/* A file, and what the line of its mount tells of it. */
struct search {
  uint64_t mount;        /* its number */
  const char *path;      /* of the file */
  char upper[PATH_MAX];  /* the upper directory; empty: there is none */
  char inside[PATH_MAX]; /* the file's path in it */
};

enum { OTHER_MOUNT = 2, REAL_BYTES = 2 * PATH_MAX };

/* Options have blanks and commas of a path as \ooo. */
static void take_upper(struct search *search, char *options) {
  char *rest = NULL;
  search->upper[0] = '\0';
  for (char *option = strtok_r(options, ",", &rest); option != NULL;
       option = strtok_r(NULL, ",", &rest))
    if (strncmp(option, "upperdir=", 9) == 0) {
      (void)snprintf(search->upper, sizeof search->upper, "%s", option + 9);
      mounts_unescape(search->upper);
    }
}

/* Returns 1 when this is the file's mount, OTHER_MOUNT when that is none of an overlay. */
static int take_mount(void *context, char *line) {
  struct search *search = context;
  char *fields[FIELDS_MAX];
  uint64_t mount;
  unsigned count = mounts_cut_fields(line, fields, FIELDS_MAX);
  if (count < 9 || sscanf(fields[FIELD_ID], "%" SCNu64, &mount) != 1 || mount != search->mount)
    return 0;
  if (strcmp(fields[count - 3], "overlay") != 0)
    return OTHER_MOUNT;
  char *root = fields[FIELD_ROOT];
  char *point = fields[FIELD_POINT];
  mounts_unescape(root);
  mounts_unescape(point);
  size_t length = strcmp(point, "/") == 0 ? 0 : strlen(point);
  if (strncmp(search->path, point, length) != 0 ||
      (search->path[length] != '/' && search->path[length] != '\0'))
    return -ESTALE; /* its path is that of another root */
  int used = snprintf(search->inside, sizeof search->inside, "%s%s",
                      strcmp(root, "/") == 0 ? "" : root, search->path + length);
  take_upper(search, fields[count - 1]);
  return used < 0 || (size_t)used >= sizeof search->inside ? -ENAMETOOLONG : 1;
}

/* Finds the mount among those of this process, or else among those of the other one. Only what is
 * in neither is asked itself: a server that is asked may not answer. */
static int find_mount(struct search *search, int folder, int fd) {
  struct statfs system;
  int rc = processes_lines(AT_FDCWD, "/proc/self/mountinfo", take_mount, search);
  if (rc <= 0 && folder >= 0)
    rc = processes_lines(folder, "mountinfo", take_mount, search);
  if (rc > 0)
    return rc;
  if (fstatfs(fd, &system) != 0)
    return -errno;
  return (unsigned long)system.f_type == OVERLAYFS_SUPER_MAGIC ? -ESTALE : OTHER_MOUNT;
}

/* Makes the path of the file of the upper directory, as the options of the mount have it, in `real`
 * of REAL_BYTES. Returns 1, 0 when there is none, or -errno. */
static int find_real(int folder, int fd, char *real) {
  char path[PATH_MAX];
  struct statx mount;
  (void)snprintf(real, REAL_BYTES, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(real, path, sizeof path - 1);
  if (length < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &mount) != 0)
    return -errno;
  path[length] = '\0';
  /* Before Linux 5.8 there is no such number, and so no mount of it. */
  bool has_number = (mount.stx_mask & STATX_MNT_ID) != 0;
  struct search search = {.mount = has_number ? mount.stx_mnt_id : UINT64_MAX, .path = path};
  int rc = find_mount(&search, folder, fd);
  if (rc != 1)
    return rc < 0 ? rc : 0;
  if (search.upper[0] == '\0') /* it is only read */
    return 0;
  if (search.upper[0] != '/')
    return -EXDEV;
  (void)snprintf(real, REAL_BYTES, "%s%s", search.upper, search.inside);
  return 1;
}

static int look(int at, const char *real, struct stat *below) {
  if (fstatat(at, real, below, 0) != 0)
    return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
  return S_ISREG(below->st_mode) ? 1 : 0;
}

int overlay_below(int fd, struct stat *below) {
  char real[REAL_BYTES];
  int rc = find_real(-1, fd, real);
  return rc == 1 ? look(AT_FDCWD, real, below) : rc;
}

static bool may_be_node(const struct graph *graph, int at, const char *real) {
  struct stat below;
  int rc = look(at, real, &below);
  return rc < 0 || (rc == 1 && graph_find(graph, &below) != NULL);
}

/* The path may be one of this mount namespace or of the other process's. */
bool overlay_is_node(const struct graph *graph, int folder, int at, const char *name) {
  char real[REAL_BYTES];
  char from_root[sizeof "root" + REAL_BYTES];
  int fd = openat(at, name, O_PATH | O_CLOEXEC);
  if (fd < 0)
    return errno != ENOENT; /* it was closed */
  int rc = find_real(folder, fd, real);
  (void)close(fd); /* only a place */
  if (rc != 1)
    return rc < 0;
  (void)snprintf(from_root, sizeof from_root, "root%s", real);
  return may_be_node(graph, AT_FDCWD, real) || may_be_node(graph, folder, from_root);
}
