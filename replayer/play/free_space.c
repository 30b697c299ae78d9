#include "play/free_space.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "play/diag.h"
#include "play/disk_space.h"
#include "play/file_codes.h"
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

/* Where an operation that succeeds lets its file end, 0 where only the run can show it. */
static uint64_t end_of(const struct file_record *record) {
  bool keeps = (record->flags & (FILE_KEEPS_SIZE | FILE_PUNCHES_HOLE)) != 0;
  if (record->expected_error != 0)
    return 0;
  if (record->operation == FILE_TRUNCATE)
    return record->length;
  bool extends = record->operation == FILE_WRITE || (record->operation == FILE_FALLOCATE && !keeps);
  return extends && record->offset != FILE_AT_POSITION ? record->offset + record->length : 0;
}

static uint64_t longest_of(const struct file_plan *plan) {
  uint64_t longest = 0;
  for (uint32_t i = 0; i < plan->file_count; i++)
    if (plan->files[i].is_present && plan->files[i].size_bytes > longest)
      longest = plan->files[i].size_bytes;
  for (uint64_t i = 0; i < plan->record_count; i++)
    if (end_of(&plan->records[i]) > longest)
      longest = end_of(&plan->records[i]);
  return longest;
}

/* The kernel refuses each operation behind the largest file of a process. */
static int check_longest(const struct free_space *space) {
  if (space->longest_bytes <= space->longest_limit)
    return 0;
  diag("a file of the plan gets %" PRIu64 " bytes long, this process may write one of %" PRIu64
       "; raise the limit (ulimit -f)",
       space->longest_bytes, space->longest_limit);
  return -EFBIG;
}

static int check_space(const struct free_space *space) {
  if (space->needed_bytes > space->free_bytes) {
    diag("the files need %" PRIu64 " MiB, %" PRIu64
         " MiB are free; use fewer or smaller files or another directory",
         (space->needed_bytes >> 20) + 1, space->free_bytes >> 20);
    return -ENOSPC;
  }
  if (space->needed_bytes > space->quota_bytes) {
    diag("the files need %" PRIu64 " MiB, the user's quota leaves %" PRIu64
         " MiB; raise it, or use fewer or smaller files or another directory",
         (space->needed_bytes >> 20) + 1, space->quota_bytes >> 20);
    return -ENOSPC;
  }
  if (space->needed_inodes > space->free_inodes) {
    diag("the plan needs %" PRIu64 " inodes, %" PRIu64 " are free; use fewer files",
         space->needed_inodes, space->free_inodes);
    return -ENOSPC;
  }
  return 0;
}

static uint64_t more(uint64_t known, uint64_t added) {
  return known == UINT64_MAX ? known : known + added;
}

int free_space_check(struct free_space *space, const struct file_plan *plan,
                     const struct run_folder *folder, bool ignores_space) {
  struct statvfs status;
  struct disk_space disk;
  int fd = folder->target_fd;
  int rc = fstatvfs(fd, &status) != 0 ? -errno : disk_space_of(fd, &disk);
  if (rc != 0) {
    diag("cannot ask for free space: %s", strerror(-rc));
    return rc;
  }
  space->needed_bytes = plan->needed_bytes + (uint64_t)plan->file_count * disk.block_bytes;
  space->free_bytes = more(disk.free_bytes, folder->left_bytes);
  space->quota_bytes = more(disk.quota_bytes, folder->left_bytes);
  space->needed_inodes = (uint64_t)plan->file_count + RUN_FOLDER_INODES;
  uint64_t own_inodes = folder->own_fd >= 0 ? RUN_FOLDER_INODES : folder->left_inodes;
  space->free_inodes = status.f_files == 0 ? UINT64_MAX : more(status.f_favail, own_inodes);
  space->longest_bytes = longest_of(plan);
  space->longest_limit = process_limits_get(RLIMIT_FSIZE);
  space->needed_files = (uint64_t)plan->handle_count + plan->thread_count + OWN_FILES;
  if (!ignores_space)
    rc = check_space(space);
  if (rc == 0 && !ignores_space)
    rc = check_longest(space);
  return rc != 0 ? rc : raise_limit(space);
}
