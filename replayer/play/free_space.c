#include "play/free_space.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>

#include "play/diag.h"
#include "play/process_limits.h"

#define OWN_FILES                                                                                  \
  32U /* descriptors beside those of the plan: directory, plan, results, preparation */

static int raise_limit(struct free_space *space) {
  space->file_limit = process_limits_raise_files(space->needed_files);
  if (space->file_limit >= space->needed_files)
    return 0;
  diag("the plan keeps up to %" PRIu64 " files open, this process may open %" PRIu64
       "; raise the limit (ulimit -n %" PRIu64 ") or use fewer threads",
       space->needed_files - OWN_FILES, space->file_limit, space->needed_files);
  return -EMFILE;
}

static int check_space(const struct free_space *space, bool ignores_space) {
  if (ignores_space)
    return 0;
  if (space->needed_bytes > space->free_bytes) {
    diag("the files need %" PRIu64 " MiB, %" PRIu64
         " MiB are free; use fewer or smaller files or another directory",
         (space->needed_bytes >> 20) + 1, space->free_bytes >> 20);
    return -ENOSPC;
  }
  if (space->needed_inodes > space->free_inodes) {
    diag("the plan needs %" PRIu64 " inodes, %" PRIu64 " are free; use fewer files",
         space->needed_inodes, space->free_inodes);
    return -ENOSPC;
  }
  return 0;
}

int free_space_check(struct free_space *space, const struct file_plan *plan, int directory_fd,
                     bool ignores_space) {
  struct statvfs status;
  if (fstatvfs(directory_fd, &status) != 0) {
    int rc = -errno;
    diag("cannot ask for free space: %s", strerror(-rc));
    return rc;
  }
  space->needed_bytes = plan->needed_bytes + (uint64_t)plan->file_count * status.f_bsize;
  space->free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
  space->needed_inodes = plan->file_count;
  space->free_inodes = status.f_files == 0 ? UINT64_MAX : status.f_favail;
  space->needed_files = (uint64_t)plan->handle_count + plan->thread_count + OWN_FILES;
  int rc = check_space(space, ignores_space);
  return rc != 0 ? rc : raise_limit(space);
}
