#include "files/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/remove.h"
#include "replay/diag.h"

#define MARK "made-by-tracekit-file-replay"
#define RUN "run"
#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int refuse(const char *target, const char *why) {
  diag("%s/%s %s", target, FOLDER_NAME, why);
  return -EEXIST;
}

/* Removes what an earlier run left, if it is ours and nobody uses it. */
static int remove_earlier(struct folder *folder, const char *target) {
  int own = openat(folder->target_fd, FOLDER_NAME, DIRECTORY);
  if (own < 0)
    return refuse(target, "is no directory");
  int mark = openat(own, MARK, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  int rc = 0;
  if (mark < 0)
    rc = refuse(target, "was not made by this program: it lacks the mark; remove it yourself");
  else if (flock(mark, LOCK_EX | LOCK_NB) != 0)
    rc = refuse(target, "is in use by another run");
  if (rc == 0)
    rc = remove_below(own);
  if (rc == 0 && unlinkat(folder->target_fd, FOLDER_NAME, AT_REMOVEDIR) != 0)
    rc = -errno;
  if (mark >= 0)
    (void)close(mark); /* only locked */
  (void)close(own);
  return rc;
}

static int make_own(struct folder *folder, const char *target, bool replaces) {
  int made = mkdirat(folder->target_fd, FOLDER_NAME, 0755);
  if (made != 0 && errno == EEXIST) {
    if (!replaces)
      return refuse(target, "is there from another run; --replace removes it");
    int rc = remove_earlier(folder, target);
    if (rc != 0)
      return rc;
    made = mkdirat(folder->target_fd, FOLDER_NAME, 0755);
  }
  return made == 0 ? 0 : -errno;
}

static int fill_own(struct folder *folder) {
  folder->own_fd = openat(folder->target_fd, FOLDER_NAME, DIRECTORY);
  if (folder->own_fd < 0)
    return -errno;
  folder->mark_fd = openat(folder->own_fd, MARK, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (folder->mark_fd < 0 || flock(folder->mark_fd, LOCK_EX | LOCK_NB) != 0 ||
      mkdirat(folder->own_fd, RUN, 0755) != 0)
    return -errno;
  folder->run_fd = openat(folder->own_fd, RUN, DIRECTORY);
  return folder->run_fd < 0 ? -errno : 0;
}

int folder_open(struct folder *folder, const char *target, bool replaces) {
  *folder = (struct folder){.target_fd = -1, .own_fd = -1, .mark_fd = -1, .run_fd = -1};
  folder->target_fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int rc = folder->target_fd < 0 ? -errno : make_own(folder, target, replaces);
  if (rc == 0)
    rc = fill_own(folder);
  if (rc != 0 && rc != -EEXIST)
    diag("cannot make %s in %s: %s", FOLDER_NAME, target, strerror(-rc));
  return rc;
}

static void close_one(int *fd) {
  if (*fd >= 0)
    (void)close(*fd); /* nothing was written through a directory */
  *fd = -1;
}

int folder_close(struct folder *folder, bool keeps) {
  int rc = 0;
  close_one(&folder->run_fd);
  if (folder->own_fd >= 0 && !keeps) {
    rc = remove_below(folder->own_fd);
    if (rc == 0 && unlinkat(folder->target_fd, FOLDER_NAME, AT_REMOVEDIR) != 0)
      rc = -errno;
    if (rc != 0)
      diag("cannot remove %s: %s", FOLDER_NAME, strerror(-rc));
  }
  close_one(&folder->mark_fd);
  close_one(&folder->own_fd);
  close_one(&folder->target_fd);
  return rc;
}
