#include "play/output_check.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play/diag.h"

/* Writes the folder of `path` to out[PATH_MAX]. */
static int folder_of(const char *path, char *out) {
  const char *slash = strrchr(path, '/');
  size_t length = slash == NULL ? 0 : (size_t)(slash - path) + 1;
  if (length >= PATH_MAX)
    return -ENAMETOOLONG;
  memcpy(out, slash == NULL ? "." : path, slash == NULL ? 1 : length);
  out[slash == NULL ? 1 : length] = '\0';
  return 0;
}

/* Whether both would be the same new file. */
static bool is_same_name(const char *first, const char *second) {
  const char *names[2] = {strrchr(first, '/'), strrchr(second, '/')};
  names[0] = names[0] == NULL ? first : names[0] + 1;
  names[1] = names[1] == NULL ? second : names[1] + 1;
  char folders[2][PATH_MAX];
  struct stat status[2];
  return strcmp(names[0], names[1]) == 0 && folder_of(first, folders[0]) == 0 &&
         folder_of(second, folders[1]) == 0 && stat(folders[0], &status[0]) == 0 &&
         stat(folders[1], &status[1]) == 0 && status[0].st_dev == status[1].st_dev &&
         status[0].st_ino == status[1].st_ino;
}

static bool is_same(const char *first, const char *second) {
  struct stat status[2];
  bool is_there[2] = {stat(first, &status[0]) == 0, stat(second, &status[1]) == 0};
  if (!is_there[0] && !is_there[1])
    return is_same_name(first, second);
  return is_there[0] && is_there[1] && (S_ISREG(status[0].st_mode) || S_ISBLK(status[0].st_mode)) &&
         status[0].st_dev == status[1].st_dev && status[0].st_ino == status[1].st_ino;
}

/* A file is made beside the output and renamed. */
static int check_folder(const struct output_use *use) {
  struct stat status;
  if (stat(use->path, &status) == 0 && !S_ISREG(status.st_mode))
    return 0;
  char folder[PATH_MAX];
  int rc = folder_of(use->path, folder);
  if (rc == 0 && access(folder, W_OK | X_OK) != 0)
    rc = -errno;
  if (rc != 0)
    diag("cannot write %s to %s: %s", use->what, use->path, strerror(-rc));
  return rc;
}

int output_check(const struct output_use *uses, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (!uses[i].is_output || uses[i].path == NULL)
      continue;
    int rc = check_folder(&uses[i]);
    if (rc != 0)
      return rc;
    for (uint32_t j = 0; j < count; j++) {
      if (j == i || uses[j].path == NULL || !is_same(uses[i].path, uses[j].path))
        continue;
      diag("%s cannot go to %s: that is %s", uses[i].what, uses[i].path, uses[j].what);
      return -EINVAL;
    }
  }
  return 0;
}
