#include "files/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 2100 /* components of the longest path */

static int remove_tree(int directory_fd, dev_t device, int depth);

static int remove_directory(int directory_fd, const char *name, dev_t device, int depth) {
  int fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  struct stat status;
  int rc = fstat(fd, &status) != 0 ? -errno : status.st_dev != device ? -EXDEV : 0;
  if (rc == 0)
    rc = depth == DEPTH_MAX ? -ELOOP : remove_tree(fd, device, depth + 1);
  (void)close(fd); /* only read */
  if (rc == 0 && unlinkat(directory_fd, name, AT_REMOVEDIR) != 0)
    rc = -errno;
  return rc;
}

static int remove_entry(int directory_fd, const struct dirent *entry, dev_t device, int depth) {
  bool is_dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
  if (is_dots)
    return 0;
  if (entry->d_type != DT_DIR && unlinkat(directory_fd, entry->d_name, 0) == 0)
    return 0;
  if (entry->d_type != DT_DIR && errno != EISDIR && errno != EPERM)
    return -errno;
  return remove_directory(directory_fd, entry->d_name, device, depth);
}

static int remove_tree(int directory_fd, dev_t device, int depth) {
  int copy = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = copy < 0 ? NULL : fdopendir(copy);
  int rc = 0;
  if (stream == NULL) {
    rc = -errno;
    if (copy >= 0)
      (void)close(copy); /* only read */
    return rc;
  }
  for (;;) {
    errno = 0;
    const struct dirent *entry = readdir(stream);
    if (entry == NULL) {
      rc = rc == 0 ? -errno : rc;
      break;
    }
    int removed = remove_entry(directory_fd, entry, device, depth);
    rc = rc == 0 ? removed : rc;
  }
  (void)closedir(stream); /* only read */
  return rc;
}

int remove_below(int directory_fd) {
  struct stat status;
  return fstat(directory_fd, &status) != 0 ? -errno : remove_tree(directory_fd, status.st_dev, 0);
}
