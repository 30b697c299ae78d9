#include "replay/options.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "replay/command.h"
#include "replay/diag.h"

#define DEPTH_MAX 16384U
#define THREADS_MAX 1024U
#define LATE_LIMIT_NS 1000000U

static int add(const char **list, uint32_t *count, const char *text) {
  if (*count == OPTIONS_LIST_MAX)
    return -EINVAL;
  list[(*count)++] = text;
  return 0;
}

static int take_target(struct options *options, char *value) {
  if (options->target_count == OPTIONS_LIST_MAX)
    return -EINVAL;
  struct options_target *target = &options->targets[options->target_count++];
  size_t length = strcspn(value, "=/");
  bool has_label = value[length] == '=';
  if (has_label)
    value[length] = '\0';
  target->label = has_label ? value : NULL;
  target->path = has_label ? value + length + 1 : value;
  bool is_empty = target->path[0] == '\0' || (has_label && length == 0);
  return is_empty ? -EINVAL : 0;
}

static int take_device(struct options *options, char *value) {
  if (options->device_count == OPTIONS_LIST_MAX)
    return -EINVAL;
  struct options_device *device = &options->devices[options->device_count++];
  char *colon = strchr(value, ':');
  if (colon != NULL)
    *colon = '\0';
  device->label = colon == NULL ? NULL : value;
  const char *fault;
  int rc = device_spec_parse(colon == NULL ? value : colon + 1, &device->spec, &fault);
  if (rc != 0)
    diag("--emulate: %s", fault[0] == '\0' ? "a key is missing" : fault);
  return rc;
}

static int take_engine(struct options *options, char *value) {
  static const char *const names[] = {"auto", "io_uring", "threads", "dax", "emulated", "null"};
  options->engine = value;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], value) == 0)
      return 0;
  return -EINVAL;
}

static int take_pace(struct options *options, char *value) {
  static const char *const words[3] = {"trace", "fast", "closed"};
  unsigned chosen;
  int rc = command_choose(value, words, &chosen);
  options->pace.kind = (enum pace_kind)chosen;
  return rc;
}

static int take_late(struct options *options, char *value) {
  static const char *const words[3] = {"catch-up", "slip", "drop"};
  unsigned chosen;
  int rc = command_choose(value, words, &chosen);
  options->pace.late = (enum pace_late)chosen;
  return rc;
}

static int take_late_limit(struct options *options, char *value) {
  return number_parse(value, 0, INT64_MAX, &options->pace.late_limit_ns);
}

static int take_from(struct options *options, char *value) {
  return number_parse(value, 0, INT64_MAX, &options->from_ns);
}

static int take_until(struct options *options, char *value) {
  return number_parse(value, 1, INT64_MAX, &options->until_ns);
}

static int take_first(struct options *options, char *value) {
  return number_parse(value, 0, INT64_MAX, &options->first);
}

static int take_max_idle(struct options *options, char *value) {
  return number_parse(value, 0, INT64_MAX, &options->max_idle_ns);
}

static int take_speed(struct options *options, char *value) {
  return fraction_parse(value, &options->speed);
}

static int take_small(const char *value, uint64_t maximum, uint32_t *out) {
  uint64_t number = 0;
  int rc = number_parse(value, 1, maximum, &number);
  *out = (uint32_t)number;
  return rc;
}

static int take_depth(struct options *options, char *value) {
  return take_small(value, DEPTH_MAX, &options->depth);
}

static int take_threads(struct options *options, char *value) {
  return take_small(value, THREADS_MAX, &options->threads);
}

static int take_direct(struct options *options, char *value) {
  static const char *const words[3] = {"auto", "on", "off"};
  unsigned chosen;
  int rc = command_choose(value, words, &chosen);
  options->direct = (enum target_direct)chosen;
  return rc;
}

static int take_range(struct options *options, char *value) {
  static const char *const words[PLACE_POLICIES] = {"refuse", "wrap",  "skip",
                                                    "fold",   "scale", "clip"};
  for (unsigned i = 0; i < PLACE_POLICIES; i++)
    if (strcmp(value, words[i]) == 0) {
      options->out_of_range = (enum place_policy)i;
      return 0;
    }
  return -EINVAL;
}

static int take_overlaps(struct options *options, char *value) {
  static const char *const words[3] = {"allow", "order", "drop"};
  unsigned chosen;
  int rc = command_choose(value, words, &chosen);
  options->overlaps = (enum overlap_policy)chosen;
  return rc;
}

static int take_expand(struct options *options, char *value) {
  (void)value;
  options->expands = true;
  return 0;
}

static int take_write_to(struct options *options, char *value) {
  return add(options->write_to, &options->write_to_count, value);
}

static int take_overwrite(struct options *options, char *value) {
  return add(options->overwrite, &options->overwrite_count, value);
}

static int take_completions(struct options *options, char *value) {
  options->completions_path = value;
  return 0;
}

static int take_summary(struct options *options, char *value) {
  options->summary_path = value;
  return 0;
}

static int take_keep(struct options *options, char *value) {
  (void)value;
  options->keep = true;
  return 0;
}

static int take_no_calibration(struct options *options, char *value) {
  (void)value;
  options->is_raw = true;
  return 0;
}

static int take_dry_run(struct options *options, char *value) {
  (void)value;
  options->is_dry_run = true;
  return 0;
}

static int take_progress(struct options *options, char *value) {
  uint64_t number = 0;
  int rc = number_parse(value, 0, INT_MAX, &number);
  options->progress_fd = (int)number;
  return rc;
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
    {"target", "[LABEL=]PATH", "where requests go; without LABEL: all other ones", take_target},
    {"engine", "NAME", "auto, io_uring, threads, dax, emulated or null", take_engine},
    {"emulate", "[LABEL:]SPEC", "service times, KEY=VALUE,...: see INTERFACE.md", take_device},
    {"pace", "NAME", "trace: at the plan's times; fast; closed: by completions", take_pace},
    {"late", "POLICY", "catch-up, slip or drop what is late (default catch-up)", take_late},
    {"late-limit-ns", "N", "later than this is late for them (default 1000000)", take_late_limit},
    {"max-idle-ns", "N", "cut longer gaps between requests to this", take_max_idle},
    {"from-ns", "N", "leave out the requests before this time of the plan", take_from},
    {"until-ns", "N", "leave out the requests from this time of the plan on", take_until},
    {"first", "N", "leave out the first N requests of the plan", take_first},
    {"speed", "X", "divide the plan's times by X, such as 2, 0.5 or 3/2", take_speed},
    {"depth", "N", "most requests in flight (default 4096; 32 with fast)", take_depth},
    {"threads", "N", "workers of the threads engine (default 32)", take_threads},
    {"direct", "WHEN", "O_DIRECT: auto, on or off (default auto)", take_direct},
    {"write-to", "TOKEN", "confirm that this existing target may be written", take_write_to},
    {"overwrite-signature", "NAME", "allow to destroy what bears it", take_overwrite},
    {"out-of-range", "POLICY", "refuse, wrap, skip, fold, scale or clip (default refuse)",
     take_range},
    {"overlaps", "POLICY", "allow, order or drop what meets one in flight", take_overlaps},
    {"expand", NULL, "widen transfers to whole sectors of the target", take_expand},
    {"completions", "FILE", "write one record a request", take_completions},
    {"summary", "FILE", "write the summary there, not to stdout", take_summary},
    {"keep", NULL, "do not remove files made for the run", take_keep},
    {"no-calibration", NULL, "do not run the beginning on nothing before", take_no_calibration},
    {"dry-run", NULL, "check everything, write and read nothing", take_dry_run},
    {"progress-fd", "N", "terminal for the progress line (default 2, stderr)", take_progress},
    {"quiet", NULL, "no progress line", take_quiet},
    {"version", NULL, "print the version of the plan, completions and summary", take_version},
    {"help", NULL, "print this", take_help},
};

static int take_plan(struct options *options, char *path) {
  if (options->plan_path != NULL) {
    diag("one plan at a time: %s or %s", options->plan_path, path);
    return -EINVAL;
  }
  options->plan_path = path;
  return 0;
}

static const struct command command = {
    .options = table, .count = sizeof table / sizeof *table, .take_place = take_plan};

static int check(const struct options *options) {
  bool is_null = strcmp(options->engine, "null") == 0;
  bool is_emulated = strcmp(options->engine, "emulated") == 0;
  if (options->plan_path == NULL)
    diag("which plan? see --help");
  else if (options->pace.kind != PACE_TRACE && options->pace.late != PACE_CATCH_UP)
    diag("--late %s needs --pace trace", options->pace.late == PACE_SLIP ? "slip" : "drop");
  else if (options->first > 0 && options->from_ns > 0)
    diag("--first and --from-ns exclude each other");
  else if (options->from_ns >= options->until_ns)
    diag("--until-ns must be later than --from-ns");
  else if (is_null && options->target_count > 0)
    diag("the null engine takes no --target");
  else if (is_emulated != (options->device_count > 0))
    diag("the emulated engine and --emulate need each other");
  else if (!is_null && !is_emulated && options->target_count == 0)
    diag("where should the requests go? name a --target");
  else
    return 0;
  return -EINVAL;
}

int options_parse(struct options *options, int count, char **arguments) {
  memset(options, 0, sizeof *options);
  options->engine = "auto";
  options->speed = (struct fraction){.numerator = 1, .denominator = 1};
  options->threads = 32;
  options->pace.late_limit_ns = LATE_LIMIT_NS;
  options->until_ns = UINT64_MAX;
  options->max_idle_ns = UINT64_MAX;
  options->progress_fd = STDERR_FILENO;
  int rc = command_parse(&command, options, count, arguments);
  if (options->depth == 0)
    options->depth = options->pace.kind == PACE_FAST ? 32 : 4096;
  return rc != 0 || options->is_help || options->is_version ? rc : check(options);
}

void options_help(FILE *out) {
  (void)fputs("usage: tracekit-replay PLAN [OPTIONS]\n\nRuns a plan of I/O requests on files or "
              "block devices and prints a JSON summary.\n\n",
              out);
  command_help(&command, out, 34);
  (void)fputs("\nexit codes: 0 all done, 1 failed or refused, 2 usage, 3 interrupted or some "
              "requests failed\n",
              out);
}
