#include "play/summary.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play/diag.h"
#include "play/transfer.h"

#define SUMMARY_VERSION 1U /* of both kinds of plan */

void summary_histogram(struct json *json, const char *key, const struct histogram *histogram) {
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

void summary_steps(struct json *json, const char *key, const struct histogram *histogram) {
  uint64_t end_ns = 0;
  json_open(json, key, '[');
  for (unsigned step = 0; step < HISTOGRAM_STEPS; step++) {
    end_ns += histogram_step_width(step);
    if (histogram->steps[step] == 0)
      continue;
    json_open(json, NULL, '{');
    json_number(json, "up_to_ns", end_ns - 1);
    json_number(json, "count", histogram->steps[step]);
    json_close(json, '}');
  }
  json_close(json, ']');
}

uint64_t summary_peak_memory_bytes(void) {
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

void summary_pace(struct json *json, enum pace_kind pace, const struct fraction *speed) {
  json_text(json, "pace", pace_words[pace]);
  json_open(json, "speed", '{');
  json_number(json, "numerator", speed->numerator);
  json_number(json, "denominator", speed->denominator);
  json_close(json, '}');
}

void summary_error(struct json *json, unsigned number) {
  json_number(json, "errno", number);
  json_text(json, "name", number == 0 ? NULL : strerrorname_np((int)number));
  json_text(json, "meaning",
            number == 0 ? "no error, where one was expected" : strerrordesc_np((int)number));
}

/* A summary that can be written more than once. */
struct content {
  const struct summary_head *head;
  summary_body *body;
  const void *session;
};

static void write_json(FILE *file, const struct content *content) {
  const struct summary_head *head = content->head;
  struct json json = {.out = file};
  json_open(&json, NULL, '{');
  json_number(&json, "summary_version", SUMMARY_VERSION);
  json_text(&json, "outcome", head->outcome);
  if (head->ended_by != NULL)
    json_text(&json, "ended_by", head->ended_by);
  json_text(&json, "error", head->error == 0 ? NULL : strerrordesc_np(-head->error));
  content->body(&json, content->session);
  json_close(&json, '}');
}

/* Writes to `file` and closes it; `is_synced`: it outlasts a power cut. */
static int write_and_close(FILE *file, const struct content *content, bool is_synced) {
  write_json(file, content);
  /* What did not fit once may fit at the second try: the file would have a hole. */
  bool is_bad = ferror(file) != 0;
  int rc = fflush(file) != 0 ? -errno : is_bad ? -EIO : 0;
  if (rc == 0 && is_synced && fsync(fileno(file)) != 0)
    rc = -errno;
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
static int write_through(const char *path, const struct content *content) {
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  struct stat status;
  if (fd < 0)
    return -errno;
  FILE *file = fstat(fd, &status) == 0 && !S_ISBLK(status.st_mode) ? fdopen(fd, "w") : NULL;
  if (file == NULL) {
    (void)close(fd); /* nothing was written */
    return -EINVAL;
  }
  return write_and_close(file, content, false);
}

/* Writes to a file beside `path` and renames it. */
static int write_file(const char *path, const struct content *content) {
  char beside[PATH_MAX];
  int length = snprintf(beside, sizeof beside, "%s.%ld.part", path, (long)getpid());
  if (length < 0 || (size_t)length >= sizeof beside)
    return -ENAMETOOLONG;
  FILE *file = fopen(beside, "wxe");
  if (file == NULL)
    return -errno;
  int rc = write_and_close(file, content, true);
  if (rc == 0)
    rc = transfer_rename(beside, path);
  if (rc != 0)
    (void)unlink(beside); /* our own unfinished file */
  return rc;
}

/* stdout has nothing else when the summary goes to a file. */
static int write_stdout(const struct content *content) {
  write_json(stdout, content);
  return fflush(stdout) != 0 || ferror(stdout) != 0 ? -EIO : 0;
}

int summary_write(const char *path, const struct summary_head *head, summary_body *body,
                  const void *session) {
  const struct content content = {head, body, session};
  int rc;
  if (path == NULL)
    rc = write_stdout(&content);
  else
    rc = is_special(path) ? write_through(path, &content) : write_file(path, &content);
  if (rc == 0)
    return 0;
  bool is_saved = path != NULL && write_stdout(&content) == 0;
  diag("cannot write the summary to %s: %s%s", path == NULL ? "stdout" : path, strerror(-rc),
       is_saved ? "; it is on stdout instead" : "");
  return rc;
}
