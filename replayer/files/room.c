#include "files/room.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "replay/diag.h"

#define OWN_FILES                                                                                  \
  32U /* descriptors beside those of the plan: directory, plan, results, preparation */

static int raise_limit(struct room *room) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return -errno;
  if (limit.rlim_cur < room->needed_files && limit.rlim_max > limit.rlim_cur) {
    limit.rlim_cur = limit.rlim_max < room->needed_files ? limit.rlim_max : room->needed_files;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
      return -errno;
  }
  room->file_limit = limit.rlim_cur;
  if (room->file_limit >= room->needed_files)
    return 0;
  diag("the plan keeps up to %" PRIu64 " files open, this process may open %" PRIu64
       "; raise the limit (ulimit -n %" PRIu64 ") or use fewer threads",
       room->needed_files - OWN_FILES, room->file_limit, room->needed_files);
  return -EMFILE;
}

static int check_space(const struct room *room, bool ignores_space) {
  if (ignores_space)
    return 0;
  if (room->needed_bytes > room->free_bytes) {
    diag("the files need %" PRIu64 " MiB, %" PRIu64
         " MiB are free; use fewer or smaller files or another directory",
         (room->needed_bytes >> 20) + 1, room->free_bytes >> 20);
    return -ENOSPC;
  }
  if (room->needed_inodes > room->free_inodes) {
    diag("the plan needs %" PRIu64 " inodes, %" PRIu64 " are free; use fewer files",
         room->needed_inodes, room->free_inodes);
    return -ENOSPC;
  }
  return 0;
}

int room_check(struct room *room, const struct plan *plan, int directory_fd, bool ignores_space) {
  struct statvfs status;
  if (fstatvfs(directory_fd, &status) != 0) {
    int rc = -errno;
    diag("cannot ask for free space: %s", strerror(-rc));
    return rc;
  }
  room->needed_bytes = plan->needed_bytes + (uint64_t)plan->file_count * status.f_bsize;
  room->free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
  room->needed_inodes = plan->file_count;
  room->free_inodes = status.f_files == 0 ? UINT64_MAX : status.f_favail;
  room->needed_files = (uint64_t)plan->handle_count + plan->thread_count + OWN_FILES;
  int rc = check_space(room, ignores_space);
  return rc != 0 ? rc : raise_limit(room);
}
