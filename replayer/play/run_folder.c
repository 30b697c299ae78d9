#include "play/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play/diag.h"
#include "play/stop.h"

#define DEPTH_MAX 2100   /* components of the longest path */
#define BLOCK_BYTES 512U /* of st_blocks */

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

/* It goes on after an error, so that as little as possible stays, and returns the first one; -EINTR
 * where it stopped STOP_REMOVE_S after the signal. */
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
  while (rc != -EINTR) {
    errno = stop_is_overdue() ? EINTR : 0;
    const struct dirent *entry = errno == 0 ? readdir(stream) : NULL;
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

static int remove_below(int directory_fd) {
  struct stat status;
  return fstat(directory_fd, &status) != 0 ? -errno : remove_tree(directory_fd, status.st_dev, 0);
}

#define MARK_KEPT "made-by-tracekit-file-replay"
#define MARK_UNDER_WAY "used-by-tracekit-file-replay"
#define RUN "run"
#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int reject(const char *target, const char *why) {
  diag("%s/%s %s", target, RUN_FOLDER_NAME, why);
  return -EEXIST;
}

/* Opens the mark of what an earlier run left; -1 and errno when there is none. */
static int open_mark(struct run_folder *folder, int own) {
  int fd = openat(own, MARK_UNDER_WAY, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  folder->found = fd < 0 ? RUN_FOLDER_KEPT : RUN_FOLDER_KILLED;
  return fd < 0 ? openat(own, MARK_KEPT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : fd;
}

/* Returns whether nobody uses what bears the mark, and keeps it so while `mark` is open. */
static bool is_free(int mark) {
  struct stat status;
  /* Without a name it is that of a run that somebody else has just removed. */
  return flock(mark, LOCK_EX | LOCK_NB) == 0 && fstat(mark, &status) == 0 && status.st_nlink > 0;
}

/* Removes all below `own`, the mark last: a removal that is killed can be done again. */
static int remove_marked(const struct run_folder *folder, int own) {
  int run = openat(own, RUN, DIRECTORY);
  int rc = run < 0 ? 0 : remove_below(run);
  if (run >= 0)
    (void)close(run); /* only read */
  if (rc == 0)
    rc = remove_below(own);
  return rc == 0 && unlinkat(folder->target_fd, RUN_FOLDER_NAME, AT_REMOVEDIR) != 0 ? -errno : rc;
}

/* Whether what bears the mark, -1 for none, may be removed. */
static int may_remove(const struct run_folder *folder, const char *target, int mark,
                      bool replaces) {
  if (mark < 0)
    return reject(target, "was not made by this program: its mark is missing; remove it yourself");
  if (!is_free(mark))
    return reject(target, "is in use by another run");
  if (folder->found == RUN_FOLDER_KEPT && !replaces)
    return reject(target, "is there from another run, which kept it; --replace removes it");
  return 0;
}

/* Removes what an earlier run left, if it is ours and nobody uses it or asked to keep it. */
static int remove_earlier(struct run_folder *folder, const char *target, bool replaces) {
  int own = openat(folder->target_fd, RUN_FOLDER_NAME, DIRECTORY);
  if (own < 0)
    return reject(target, "is no directory");
  int mark = open_mark(folder, own);
  /* A run that was killed at its first or last step left it empty: then nothing is lost. */
  if (mark < 0 && unlinkat(folder->target_fd, RUN_FOLDER_NAME, AT_REMOVEDIR) == 0) {
    folder->found = RUN_FOLDER_NOTHING;
    (void)close(own); /* only read */
    return 0;
  }
  int rc = may_remove(folder, target, mark, replaces);
  if (rc == 0)
    rc = remove_marked(folder, own);
  if (rc == 0 && folder->found == RUN_FOLDER_KILLED)
    diag("removed %s/%s, which a killed run had left", target, RUN_FOLDER_NAME);
  if (mark >= 0)
    (void)close(mark); /* only locked */
  (void)close(own);
  return rc;
}

/* Adds what all below a directory takes, as far as it can be read. Returns how much there is. */
static uint64_t measure(struct run_folder *folder, int directory_fd, int depth) {
  int copy = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = copy < 0 ? NULL : fdopendir(copy);
  uint64_t count = 0;
  for (const struct dirent *entry = stream == NULL ? NULL : readdir(stream); entry != NULL;
       entry = readdir(stream)) {
    struct stat status;
    bool is_dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (is_dots || fstatat(directory_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    count++;
    folder->left_bytes += (uint64_t)status.st_blocks * BLOCK_BYTES;
    int below = S_ISDIR(status.st_mode) && depth < DEPTH_MAX
                    ? openat(directory_fd, entry->d_name, DIRECTORY)
                    : -1;
    if (below >= 0) {
      count += measure(folder, below, depth + 1);
      (void)close(below); /* only read */
    }
  }
  if (stream != NULL)
    (void)closedir(stream); /* only read */
  else if (copy >= 0)
    (void)close(copy); /* only opened */
  return count;
}

/* Looks at what an earlier run left as remove_earlier does. */
static int look_at_earlier(struct run_folder *folder, const char *target, bool replaces) {
  int own = openat(folder->target_fd, RUN_FOLDER_NAME, DIRECTORY);
  if (own < 0)
    return errno == ENOENT ? 0 : reject(target, "is no directory");
  int mark = open_mark(folder, own);
  uint64_t count = measure(folder, own, 0);
  int rc = mark < 0 && count == 0 ? 0 : may_remove(folder, target, mark, replaces);
  folder->found = mark < 0 ? RUN_FOLDER_NOTHING : folder->found;
  folder->left_inodes = count + 1;
  if (mark >= 0)
    (void)close(mark); /* only locked */
  (void)close(own);    /* only read */
  return rc;
}

/* Whether a directory can be made in that of the user. */
static int may_write(int directory_fd) {
  return faccessat(directory_fd, ".", W_OK | X_OK, AT_EACCESS) != 0 ? -errno : 0;
}

static int make_own(struct run_folder *folder, const char *target, bool replaces) {
  int made = mkdirat(folder->target_fd, RUN_FOLDER_NAME, 0755);
  if (made != 0 && errno == EEXIST) {
    int rc = remove_earlier(folder, target, replaces);
    if (rc != 0)
      return rc;
    made = mkdirat(folder->target_fd, RUN_FOLDER_NAME, 0755);
  }
  return made == 0 ? 0 : -errno;
}

static int fill_own(struct run_folder *folder, const char *target) {
  folder->own_fd = openat(folder->target_fd, RUN_FOLDER_NAME, DIRECTORY);
  if (folder->own_fd < 0)
    return -errno;
  folder->mark_fd =
      openat(folder->own_fd, MARK_UNDER_WAY, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (folder->mark_fd < 0 && errno == EEXIST)
    return reject(target, "is in use by another run");
  if (folder->mark_fd < 0 || flock(folder->mark_fd, LOCK_EX | LOCK_NB) != 0 ||
      mkdirat(folder->own_fd, RUN, 0755) != 0)
    return -errno;
  folder->run_fd = openat(folder->own_fd, RUN, DIRECTORY);
  return folder->run_fd < 0 ? -errno : 0;
}

static int open_target(struct run_folder *folder, const char *target) {
  *folder = (struct run_folder){.target_fd = -1, .own_fd = -1, .mark_fd = -1, .run_fd = -1};
  folder->target_fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return folder->target_fd < 0 ? -errno : 0;
}

/* What was rejected has had its line. */
static int explain(const char *target, int rc) {
  if (rc != 0 && rc != -EEXIST && !(rc == -EINTR && stop_requested()))
    diag("cannot make %s in %s: %s", RUN_FOLDER_NAME, target, strerror(-rc));
  return rc;
}

int run_folder_open(struct run_folder *folder, const char *target, bool replaces) {
  int rc = open_target(folder, target);
  if (rc == 0)
    rc = make_own(folder, target, replaces);
  if (rc == 0)
    rc = fill_own(folder, target);
  return explain(target, rc);
}

int run_folder_look(struct run_folder *folder, const char *target, bool replaces) {
  int rc = open_target(folder, target);
  if (rc == 0)
    rc = may_write(folder->target_fd);
  if (rc == 0)
    rc = look_at_earlier(folder, target, replaces);
  return explain(target, rc);
}

static void close_one(int *fd) {
  if (*fd >= 0)
    (void)close(*fd); /* nothing was written through a directory */
  *fd = -1;
}

int run_folder_close(struct run_folder *folder, const char *target, bool keeps) {
  int rc = 0;
  close_one(&folder->run_fd);
  if (folder->own_fd >= 0 && keeps)
    rc = renameat(folder->own_fd, MARK_UNDER_WAY, folder->own_fd, MARK_KEPT) != 0 ? -errno : 0;
  else if (folder->own_fd >= 0)
    rc = remove_marked(folder, folder->own_fd);
  if (rc == -EINTR && stop_is_overdue()) {
    diag("%s/%s is removed in part only: the signal came %u s ago; the next run there removes the "
         "rest",
         target, RUN_FOLDER_NAME, STOP_REMOVE_S);
    rc = 0;
  }
  if (rc != 0)
    diag("cannot %s %s: %s", keeps ? "keep" : "remove", RUN_FOLDER_NAME, strerror(-rc));
  close_one(&folder->mark_fd);
  close_one(&folder->own_fd);
  close_one(&folder->target_fd);
  return rc;
}
