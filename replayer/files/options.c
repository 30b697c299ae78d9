#include "files/options.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "replay/command.h"
#include "replay/diag.h"
#include "replay/number.h"

#define THREADS_MAX 64U
#define INTERVAL_MIN_NS 1000000U
#define TIME_MAX_NS (UINT64_C(1) << 62)

static int take_pace(struct options *options, char *value) {
  static const char *const words[3] = {"fast", "trace", "closed"};
  unsigned chosen;
  int rc = command_choose(value, words, &chosen);
  options->run.pace = (enum crew_pace)chosen;
  return rc;
}

static int take_cache(struct options *options, char *value) {
  static const char *const words[3] = {"keep", "sync", "cold"};
  unsigned chosen;
  int rc = command_choose(value, words, &chosen);
  options->cache = (enum prepare_cache)chosen;
  return rc;
}

static int take_speed(struct options *options, char *value) {
  return fraction_parse(value, &options->run.speed);
}

static int take_repeat(struct options *options, char *value) {
  return number_parse(value, 0, UINT32_MAX, &options->run.repeats);
}

static int take_duration(struct options *options, char *value) {
  return number_parse(value, 1, TIME_MAX_NS, &options->run.duration_ns);
}

static int take_warm_up(struct options *options, char *value) {
  return number_parse(value, 0, TIME_MAX_NS, &options->run.warm_up_ns);
}

static int take_interval(struct options *options, char *value) {
  return number_parse(value, INTERVAL_MIN_NS, TIME_MAX_NS, &options->interval_ns);
}

static int take_threads(struct options *options, char *value) {
  uint64_t number = 0;
  int rc = number_parse(value, 1, THREADS_MAX, &number);
  options->prepare_threads = (uint32_t)number;
  return rc;
}

static int take_results(struct options *options, char *value) {
  options->results_path = value;
  return 0;
}

static int take_summary(struct options *options, char *value) {
  options->summary_path = value;
  return 0;
}

static int take_progress(struct options *options, char *value) {
  uint64_t number = 0;
  int rc = number_parse(value, 0, INT_MAX, &number);
  options->progress_fd = (int)number;
  return rc;
}

static int take_keep(struct options *options, char *value) {
  (void)value;
  options->keeps = true;
  return 0;
}

static int take_replace(struct options *options, char *value) {
  (void)value;
  options->replaces = true;
  return 0;
}

static int take_no_check(struct options *options, char *value) {
  (void)value;
  options->ignores_space = true;
  return 0;
}

static int take_quiet(struct options *options, char *value) {
  (void)value;
  options->is_quiet = true;
  return 0;
}

static int take_version(struct options *options, char *value) {
  (void)value;
  options->is_version = true;
  return 0;
}

static int take_help(struct options *options, char *value) {
  (void)value;
  options->is_help = true;
  return 0;
}

static const struct command_option table[] = {
    {"pace", "NAME", "fast; trace: at the plan's times; closed: by think times", take_pace},
    {"speed", "X", "divide the plan's times by X, such as 2, 0.5 or 3/2", take_speed},
    {"repeat", "N", "run the plan N times; 0: until the time is up (default 1)", take_repeat},
    {"duration-ns", "N", "end the run after this time", take_duration},
    {"warm-up-ns", "N", "run so long before anything is measured", take_warm_up},
    {"prepare-threads", "N", "threads that make the files (default 4)", take_threads},
    {"cache", "STATE", "before the run: keep, sync, or cold (drop caches)", take_cache},
    {"interval-ns", "N", "of the rates over time (default 1000000000)", take_interval},
    {"results", "FILE", "write one record an operation", take_results},
    {"summary", "FILE", "write the summary there, not to stdout", take_summary},
    {"keep", NULL, "do not remove the files after the run", take_keep},
    {"replace", NULL, "remove what an earlier run left there", take_replace},
    {"no-space-check", NULL, "start though the files may not fit", take_no_check},
    {"progress-fd", "N", "terminal for the progress line (default 2, stderr)", take_progress},
    {"quiet", NULL, "no progress line", take_quiet},
    {"version", NULL, "print the version of the plan, results and summary", take_version},
    {"help", NULL, "print this", take_help},
};

static int take_place(struct options *options, char *path) {
  if (options->plan_path == NULL)
    options->plan_path = path;
  else if (options->directory == NULL)
    options->directory = path;
  else {
    diag("one plan and one directory, not %s as well", path);
    return -EINVAL;
  }
  return 0;
}

static const struct command command = {
    .options = table, .count = sizeof table / sizeof *table, .take_place = take_place};

static int check(const struct options *options) {
  if (options->directory == NULL)
    diag("which plan, and in which directory? see --help");
  else if (options->run.repeats == 0 && options->run.duration_ns == 0)
    diag("--repeat 0 needs --duration-ns: it would never end");
  else
    return 0;
  return -EINVAL;
}

int options_parse(struct options *options, int count, char **arguments) {
  memset(options, 0, sizeof *options);
  options->run.speed = (struct fraction){.numerator = 1, .denominator = 1};
  options->run.repeats = 1;
  options->prepare_threads = 4;
  options->interval_ns = 1000000000U;
  options->progress_fd = STDERR_FILENO;
  int rc = command_parse(&command, options, count, arguments);
  bool shows = !options->is_quiet && isatty(options->progress_fd) == 1;
  options->run.progress_fd = shows ? options->progress_fd : -1;
  return rc != 0 || options->is_help || options->is_version ? rc : check(options);
}

void options_help(FILE *out) {
  (void)fputs("usage: tracekit-file-replay PLAN DIRECTORY [OPTIONS]\n\nRuns a plan of file "
              "operations in a directory of its own below DIRECTORY and prints a JSON summary.\n\n",
              out);
  command_help(&command, out, 30);
  (void)fputs("\nexit codes: 0 all done, 1 failed or refused, 2 usage, 3 interrupted, the disk is "
              "full, or some operations failed\n",
              out);
}
