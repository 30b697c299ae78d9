#include "replay/options.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "common/version.h"
#include "replay/command.h"
#include "replay/diag.h"
#include "replay/places.h"

#define DEPTH_MAX 16384U
#define THREADS_MAX 1024U
#define CPU_MAX 65535U
#define IDLE_MS_MAX 3600000U
#define LATE_LIMIT_NS 1000000U

#define AT(member) .offset = offsetof(struct options, member)

static const char *const pace_words[] = {"trace", "fast", "closed", NULL};
static const char *const late_words[] = {"catch-up", "slip", "drop", NULL};
static const char *const direct_words[] = {"auto", "on", "off", NULL};
static const char *const overlap_words[] = {"allow", "order", "drop", NULL};
static const char *const range_words[PLACE_POLICIES + 1] = {"refuse", "wrap",  "skip",
                                                            "fold",   "scale", "clip"};
static const char *const engine_words[] = {"auto",     "io_uring", "threads", "dax",
                                           "emulated", "null",     NULL};

static int take_target(const struct command_option *option, void *place, char *value) {
  (void)option;
  struct options *options = place;
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

static int take_device(const struct command_option *option, void *place, char *value) {
  (void)option;
  struct options *options = place;
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

static int take_engine(const struct command_option *option, void *place, char *value) {
  unsigned chosen;
  int rc = command_word(option, &chosen, value);
  return rc != 0 ? rc : command_text(option, place, value);
}

static int take_listed(const struct command_option *option, void *place, char *value) {
  (void)option;
  struct options_list *list = place;
  if (list->count == OPTIONS_LIST_MAX)
    return -EINVAL;
  list->texts[list->count++] = value;
  return 0;
}

static const struct command_option table[] = {
    {.name = "target",
     .value = "[LABEL=]PATH",
     .help = "where requests go; without LABEL: all other ones",
     .take = take_target},
    {"engine", "NAME", "auto, io_uring, threads, dax, emulated or null", take_engine, AT(engine),
     .words = engine_words},
    {.name = "emulate",
     .value = "[LABEL:]SPEC",
     .help = "service times, KEY=VALUE,...: see INTERFACE.md",
     .take = take_device},
    {"pace", "NAME", "trace: at the plan's times; fast; closed: by completions", command_word,
     AT(pace.kind), .words = pace_words},
    {"late", "POLICY", "catch-up, slip or drop what is late (default catch-up)", command_word,
     AT(pace.late), .words = late_words},
    {"late-limit-ns", "N", "later than this is late for them (default 1000000)", command_number,
     AT(pace.late_limit_ns), .maximum = INT64_MAX},
    {"max-idle-ns", "N", "cut longer gaps between requests to this", command_number,
     AT(max_idle_ns), .maximum = INT64_MAX},
    {"from-ns", "N", "leave out the requests before this time of the plan", command_number,
     AT(from_ns), .maximum = INT64_MAX},
    {"until-ns", "N", "leave out the requests from this time of the plan on", command_number,
     AT(until_ns), 1, INT64_MAX},
    {"first", "N", "leave out the first N requests of the plan", command_number, AT(first),
     .maximum = INT64_MAX},
    {"speed", "X", "divide the plan's times by X, such as 2, 0.5 or 3/2", command_fraction,
     AT(speed)},
    {"depth", "N", "most requests in flight (default 4096; 32 with fast)", command_small, AT(depth),
     1, DEPTH_MAX},
    {"threads", "N", "workers of the threads engine (default 32)", command_small, AT(threads), 1,
     THREADS_MAX},
    {"sqpoll", NULL, "io_uring: a thread of the kernel submits, without calls", command_flag,
     AT(uring.is_submitted_for)},
    {"sqpoll-cpu", "N", "keep that thread on this processor", command_small, AT(uring.cpu),
     .maximum = CPU_MAX},
    {"sqpoll-idle-ms", "N", "without work for so long it sleeps (default 1000)", command_small,
     AT(uring.idle_ms), 1, IDLE_MS_MAX},
    {"iopoll", NULL, "io_uring: look for completions, without interrupts", command_flag,
     AT(uring.is_polled)},
    {"priority", "[LABEL=]CLASS", "of reads and writes: rt, be or idle, and :0 to :7", take_listed,
     AT(priority)},
    {"direct", "WHEN", "O_DIRECT: auto, on or off (default auto)", command_word, AT(direct),
     .words = direct_words},
    {"write-to", "TOKEN", "confirm that this existing target may be written", take_listed,
     AT(write_to)},
    {"overwrite-signature", "NAME", "allow to destroy what bears it", take_listed, AT(overwrite)},
    {"out-of-range", "POLICY", "refuse, wrap, skip, fold, scale or clip (default refuse)",
     command_word, AT(out_of_range), .words = range_words},
    {"overlaps", "POLICY", "allow, order or drop what meets one in flight", command_word,
     AT(overlaps), .words = overlap_words},
    {"expand", NULL, "widen transfers to whole sectors of the target", command_flag, AT(expands)},
    {"completions", "FILE", "write one record a request", command_text, AT(completions_path)},
    {"summary", "FILE", "write the summary there, not to stdout", command_text, AT(summary_path)},
    {"keep", NULL, "do not remove files made for the run", command_flag, AT(keep)},
    {"no-calibration", NULL, "do not run the beginning on nothing before", command_flag,
     AT(is_raw)},
    {"dry-run", NULL, "check everything, write and read nothing", command_flag, AT(is_dry_run)},
    {"progress-fd", "N", "terminal for the progress line (default 2, stderr)", command_terminal,
     AT(progress_fd)},
    {"quiet", NULL, "no progress line", command_flag, AT(is_quiet)},
    {"parent", "PID", "stop when this process, which started the program, ends", command_small,
     AT(parent), 1, INT32_MAX},
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
    .about = "usage: tracekit-replay PLAN [OPTIONS]\n\nRuns a plan of I/O requests on files or "
             "block devices and prints a JSON summary.\n\n",
    .codes = "\nexit codes: 0 all done, 1 failed or refused, 2 usage, 3 interrupted or some "
             "requests failed\n",
    .width = 34,
    .interface = TK_INTERFACE_VERSION,
    .options = table,
    .count = sizeof table / sizeof *table,
    .take_place = take_plan};

/* Ways of io_uring mean nothing to the other engines, priorities only to those that call the kernel
 * for each request. */
static int check_ways(const struct options *options) {
  const struct uring_modes *modes = &options->uring;
  bool is_uring = strcmp(options->engine, "auto") == 0 || strcmp(options->engine, "io_uring") == 0;
  bool has_detail = modes->cpu != URING_ANY_CPU || modes->idle_ms > 0;
  if (modes->is_submitted_for && !is_uring)
    diag("--sqpoll needs --engine io_uring");
  else if (modes->is_polled && !is_uring)
    diag("--iopoll needs --engine io_uring");
  else if (has_detail && !modes->is_submitted_for)
    diag("--sqpoll-cpu and --sqpoll-idle-ms need --sqpoll");
  else if (modes->is_polled && options->direct == DIRECT_OFF)
    diag("--iopoll needs O_DIRECT: leave --direct off out");
  else if (options->priority.count > 0 && !is_uring && strcmp(options->engine, "threads") != 0)
    diag("--priority needs --engine io_uring or threads");
  else
    return 0;
  return -EINVAL;
}

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
    return check_ways(options);
  return -EINVAL;
}

int options_parse(struct options *options, int count, char **arguments) {
  memset(options, 0, sizeof *options);
  options->engine = "auto";
  options->speed = (struct fraction){.numerator = 1, .denominator = 1};
  options->threads = 32;
  options->uring.cpu = URING_ANY_CPU;
  options->pace.late_limit_ns = LATE_LIMIT_NS;
  options->until_ns = UINT64_MAX;
  options->max_idle_ns = UINT64_MAX;
  options->progress_fd = STDERR_FILENO;
  int rc = command_parse(&command, options, count, arguments);
  if (options->depth == 0)
    options->depth = options->pace.kind == PACE_FAST ? 32 : 4096;
  return rc != 0 ? rc : check(options);
}

int options_check_outputs(const struct options *options) {
  struct place_use uses[OPTIONS_LIST_MAX + 3] = {
      {"the completions", options->completions_path, true},
      {"the summary", options->summary_path, true},
      {"the plan", options->plan_path, false},
  };
  for (uint32_t i = 0; i < options->target_count; i++)
    uses[3 + i] = (struct place_use){"a target", options->targets[i].path, false};
  return places_check(uses, 3 + options->target_count);
}
