#include "play/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play/clock.h"
#include "play/diag.h"
#include "play/open_beneath.h"
#include "play/stop.h"
#include "play/transfer.h"

#define THREADS_MAX 64U

const char *const prepare_cache_words[] = {"keep", "sync", "cold", NULL};

/* What the threads of the preparation share. */
struct work {
  const struct file_plan *plan;
  const struct file_context *context;
  _Atomic uint32_t next;       /* file to be made next */
  _Atomic int error;           /* the first one */
  _Atomic uint32_t error_file; /* that met it */
  _Atomic uint64_t files;
  _Atomic uint64_t bytes;
};

static int fill(const struct work *work, uint32_t number, int fd) {
  uint64_t size = work->plan->files[number].size_bytes;
  for (uint64_t at = 0; at < size; at += PREPARE_CHUNK_BYTES) {
    uint64_t left = size - at;
    size_t bytes = left < PREPARE_CHUNK_BYTES ? (size_t)left : PREPARE_CHUNK_BYTES;
    const unsigned char *content = file_operation_content(work->context, number, at);
    int rc = transfer_write(fd, content, bytes, at, 0);
    if (rc != 0 || stop_requested())
      return rc != 0 ? rc : -EINTR;
  }
  return 0;
}

static int make_file(struct work *work, uint32_t number) {
  int fd = open_beneath(work->context->run_fd, work->context->paths->text[number],
                        O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (fd < 0)
    return fd;
  int rc = fill(work, number, fd);
  if (close(fd) != 0 && rc == 0)
    rc = -errno;
  if (rc == 0) {
    (void)atomic_fetch_add(&work->files, 1);
    (void)atomic_fetch_add(&work->bytes, work->plan->files[number].size_bytes);
  }
  return rc;
}

static void *make_files(void *argument) {
  struct work *work = argument;
  while (atomic_load(&work->error) == 0) {
    uint32_t number = atomic_fetch_add(&work->next, 1);
    if (number >= work->plan->file_count)
      break;
    const struct file_entry *file = &work->plan->files[number];
    if (!file->is_present || file->kind != FILE_REGULAR)
      continue;
    int rc = stop_requested() ? -EINTR : make_file(work, number);
    int none = 0;
    if (rc != 0 && atomic_compare_exchange_strong(&work->error, &none, rc))
      atomic_store(&work->error_file, number);
  }
  return NULL;
}

static int make_directories(const struct file_plan *plan, const struct file_context *context,
                            struct prepare_report *report) {
  for (uint32_t i = 0; i < plan->file_count && !stop_requested(); i++) {
    if (!plan->files[i].is_present || plan->files[i].kind != FILE_DIRECTORY)
      continue;
    if (mkdirat(context->run_fd, context->paths->text[i], 0755) != 0) {
      int rc = -errno;
      diag("cannot make the directory %s: %s", context->paths->text[i], strerror(-rc));
      return rc;
    }
    report->directories++;
  }
  return stop_requested() ? -EINTR : 0;
}

/* Makes the files with this thread and as many more as there are. */
static int make_all(struct work *work, uint32_t threads) {
  pthread_t others[THREADS_MAX];
  uint32_t started = 0;
  while (started + 1 < threads && started < THREADS_MAX &&
         stop_thread_create(&others[started], make_files, work) == 0)
    started++; /* fewer threads make the same files */
  (void)make_files(work);
  for (uint32_t i = 0; i < started; i++)
    (void)pthread_join(others[i], NULL); /* fails only for a thread that is not ours */
  int rc = atomic_load(&work->error);
  if (rc != 0 && !stop_requested())
    diag("cannot make the file %s: %s", work->context->paths->text[atomic_load(&work->error_file)],
         strerror(-rc));
  return rc;
}

/* Takes the clean pages of all files out of the cache, one file after the other. */
static const char *drop_data(const struct file_plan *plan, const struct file_context *context) {
  const char *dropped = "data";
  for (uint32_t i = 0; i < plan->file_count; i++) {
    if (!plan->files[i].is_present || plan->files[i].kind != FILE_REGULAR)
      continue;
    int fd = open_beneath(context->run_fd, context->paths->text[i], O_RDONLY, 0);
    if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
      dropped = "nothing";
    if (fd >= 0)
      (void)close(fd); /* only read */
  }
  return dropped;
}

static bool drop_all(void) {
  int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
  bool is_done = fd >= 0 && write(fd, "3", 1) == 1;
  if (fd >= 0)
    (void)close(fd); /* the write has reported already */
  return is_done;
}

static int settle(const struct file_plan *plan, const struct file_context *context,
                  enum prepare_cache cache, struct prepare_report *report) {
  report->dropped = "nothing";
  if (cache == PREPARE_KEEP)
    return 0;
  if (syncfs(context->run_fd) != 0) {
    int rc = -errno;
    diag("cannot write the files back: %s", strerror(-rc));
    return rc;
  }
  if (cache == PREPARE_COLD)
    report->dropped = drop_all() ? "all" : drop_data(plan, context);
  return 0;
}

int prepare_files(const struct file_plan *plan, const struct file_context *context,
                  uint32_t threads, enum prepare_cache cache, struct prepare_report *report) {
  uint64_t start_ns = clock_now_ns();
  struct work work = {.plan = plan, .context = context};
  memset(report, 0, sizeof *report);
  int rc = make_directories(plan, context, report);
  if (rc == 0)
    rc = make_all(&work, threads);
  report->files = atomic_load(&work.files);
  report->bytes = atomic_load(&work.bytes);
  if (rc == 0)
    rc = settle(plan, context, cache, report);
  report->elapsed_ns = clock_now_ns() - start_ns;
  return rc;
}
