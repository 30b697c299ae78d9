#include "files/options.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "replay/command.h"
#include "replay/diag.h"
#include "replay/places.h"

#define INTERFACE_VERSION 1
#define THREADS_MAX 64U
#define INTERVAL_MIN_NS 1000000U
#define TIME_MAX_NS (UINT64_C(1) << 62)

#define AT(member) .offset = offsetof(struct options, member)

static const char *const pace_words[] = {"fast", "trace", "closed", NULL};
static const char *const cache_words[] = {"keep", "sync", "cold", NULL};

static const struct command_option table[] = {
    {"pace", "NAME", "fast; trace: at the plan's times; closed: by think times", command_word,
     AT(run.pace), .words = pace_words},
    {"speed", "X", "divide the plan's times by X, such as 2, 0.5 or 3/2", command_fraction,
     AT(run.speed)},
    {"repeat", "N", "run the plan N times; 0: until the time is up (default 1)", command_number,
     AT(run.repeats), .maximum = UINT32_MAX},
    {"duration-ns", "N", "end the run after this time", command_number, AT(run.duration_ns), 1,
     TIME_MAX_NS},
    {"warm-up-ns", "N", "run so long before anything is measured", command_number,
     AT(run.warm_up_ns), .maximum = TIME_MAX_NS},
    {"prepare-threads", "N", "threads that make the files (default 4)", command_small,
     AT(prepare_threads), 1, THREADS_MAX},
    {"cache", "STATE", "before the run: keep, sync, or cold (drop caches)", command_word, AT(cache),
     .words = cache_words},
    {"interval-ns", "N", "of the rates over time (default 1000000000)", command_number,
     AT(interval_ns), INTERVAL_MIN_NS, TIME_MAX_NS},
    {"results", "FILE", "write one record an operation", command_text, AT(results_path)},
    {"summary", "FILE", "write the summary there, not to stdout", command_text, AT(summary_path)},
    {"keep", NULL, "do not remove the files after the run", command_flag, AT(keeps)},
    {"replace", NULL, "remove what an earlier run kept there", command_flag, AT(replaces)},
    {"no-space-check", NULL, "start though the files may not fit", command_flag, AT(ignores_space)},
    {"progress-fd", "N", "terminal for the progress line (default 2, stderr)", command_terminal,
     AT(progress_fd)},
    {"quiet", NULL, "no progress line", command_flag, AT(is_quiet)},
    {"parent", "PID", "stop when this process, which started the program, ends", command_small,
     AT(parent), 1, INT32_MAX},
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
    .about = "usage: tracekit-file-replay PLAN DIRECTORY [OPTIONS]\n\nRuns a plan of file "
             "operations in a directory of its own below DIRECTORY and prints a JSON summary.\n\n",
    .codes = "\nexit codes: 0 all done, 1 failed or refused, 2 usage, 3 interrupted, the disk is "
             "full, or some operations failed\n",
    .width = 30,
    .interface = INTERFACE_VERSION,
    .options = table,
    .count = sizeof table / sizeof *table,
    .take_place = take_place};

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
  return rc != 0 ? rc : check(options);
}

int options_check_outputs(const struct options *options) {
  const struct place_use uses[] = {
      {"the results", options->results_path, true},
      {"the summary", options->summary_path, true},
      {"the plan", options->plan_path, false},
  };
  return places_check(uses, sizeof uses / sizeof *uses);
}
