#include "replay/report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/diag.h"

void report_histogram(struct json *json, const char *key, const struct histogram *histogram) {
  static const struct {
    const char *key;
    uint64_t parts;
  } steps[] = {{"p50_ns", 50000}, {"p90_ns", 90000}, {"p99_ns", 99000}, {"p99_9_ns", 99900}};
  if (histogram->count == 0) {
    json_text(json, key, NULL);
    return;
  }
  json_open(json, key, '{');
  json_number(json, "count", histogram->count);
  json_number(json, "min_ns", histogram->min_ns);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    json_number(json, steps[i].key, histogram_percentile(histogram, steps[i].parts));
  json_number(json, "max_ns", histogram->max_ns);
  json_real(json, "mean_ns", histogram_mean(histogram));
  json_close(json, '}');
}

uint64_t report_peak_memory_bytes(void) {
  FILE *file = fopen("/proc/self/status", "re");
  if (file == NULL)
    return 0;
  char line[256];
  unsigned long kib = 0;
  while (kib == 0 && fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "VmHWM: %lu kB", &kib) != 1)
      kib = 0;
  (void)fclose(file); /* only read */
  return (uint64_t)kib * 1024;
}

/* Writes to `file` and closes it. */
static int write_body(FILE *file, report_body *body, const void *context) {
  struct json json = {.out = file};
  body(&json, context);
  /* What did not fit once may fit at the second try: the file would have a hole. */
  bool is_bad = ferror(file) != 0;
  int rc = fflush(file) != 0 ? -errno : is_bad ? -EIO : 0;
  if (fclose(file) != 0 && rc == 0)
    rc = -errno;
  return rc;
}

/* Whether there is something at `path` that a rename would destroy. */
static bool is_special(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

/* Writes to what is no file, such as a pipe; never to a disk. */
static int write_through(const char *path, report_body *body, const void *context) {
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  struct stat status;
  if (fd < 0)
    return -errno;
  FILE *file = fstat(fd, &status) == 0 && !S_ISBLK(status.st_mode) ? fdopen(fd, "w") : NULL;
  if (file == NULL) {
    (void)close(fd); /* nothing was written */
    return -EINVAL;
  }
  return write_body(file, body, context);
}

/* Writes to a file beside `path` and renames it. */
static int write_file(const char *path, report_body *body, const void *context) {
  char beside[PATH_MAX];
  int length = snprintf(beside, sizeof beside, "%s.%ld.part", path, (long)getpid());
  if (length < 0 || (size_t)length >= sizeof beside)
    return -ENAMETOOLONG;
  FILE *file = fopen(beside, "wxe");
  if (file == NULL)
    return -errno;
  int rc = write_body(file, body, context);
  if (rc == 0 && rename(beside, path) != 0)
    rc = -errno;
  if (rc != 0)
    (void)unlink(beside); /* our own unfinished file */
  return rc;
}

/* stdout has nothing else when the summary goes to a file. */
static int write_stdout(report_body *body, const void *context) {
  struct json json = {.out = stdout};
  body(&json, context);
  return fflush(stdout) != 0 || ferror(stdout) != 0 ? -EIO : 0;
}

int report_write(const char *path, report_body *body, const void *context) {
  int rc;
  if (path == NULL)
    rc = write_stdout(body, context);
  else
    rc = is_special(path) ? write_through(path, body, context) : write_file(path, body, context);
  if (rc == 0)
    return 0;
  bool is_saved = path != NULL && write_stdout(body, context) == 0;
  diag("cannot write the summary to %s: %s%s", path == NULL ? "stdout" : path, strerror(-rc),
       is_saved ? "; it is on stdout instead" : "");
  return rc;
}
