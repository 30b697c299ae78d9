#include "play/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "common/version.h"
#include "play/block_plan.h"
#include "play/command.h"
#include "play/diag.h"
#include "play/file_plan_read.h"
#include "play/lanes.h"
#include "play/lead.h"
#include "play/output_check.h"

#define DEPTH_MAX 16384U
#define THREADS_MAX 1024U
#define CPU_MAX 65535U
#define IDLE_MS_MAX 3600000U
#define LATE_LIMIT_NS 1000000U
#define PREPARE_THREADS_MAX 64U
#define INTERVAL_MIN_NS 1000000U
#define TIME_MAX_NS (UINT64_C(1) << 62)

/* The plans that an option is for: its group in --help. */
enum { FOR_ALL, FOR_BLOCKS, FOR_FILES };

#define AT(member) .offset = offsetof(struct options, member)

static const char *const direct_words[] = {"auto", "on", "off", NULL};
static const char *const engine_words[] = {"auto", "io_uring", "threads", "nvme",
                                           "dax",  "emulated", "null",    NULL};

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
    diag("--emulate: %s", fault);
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
    {FOR_ALL, "pace", "NAME",
     "trace (default), fast (default with files) or closed: see INTERFACE.md", command_word,
     AT(pace.kind), .words = pace_words},
    {FOR_ALL, "speed", "X", "divide the plan's times by X, such as 2, 0.5 or 3/2", command_fraction,
     AT(speed)},
    {FOR_ALL, "summary", "FILE", "write the summary there, not to stdout", command_text,
     AT(summary_path)},
    {FOR_ALL, "keep", NULL, "do not remove files made for the run", command_flag, AT(keep)},
    {FOR_ALL, "progress-fd", "N", "terminal for the progress line (default 2, stderr)",
     command_descriptor, AT(progress_fd)},
    {FOR_ALL, "no-space-check", NULL, "start though what is written may not fit", command_flag,
     AT(ignores_space)},
    {FOR_ALL, "dry-run", NULL, "check everything, write and read nothing", command_flag,
     AT(is_dry_run)},
    {FOR_ALL, "quiet", NULL, "no progress line", command_flag, AT(is_quiet)},
    {FOR_ALL, "parent", "PID", "stop when this process, which started the program, ends",
     command_small, AT(parent), 1, INT32_MAX},
    {.group = FOR_BLOCKS,
     .name = "target",
     .value = "[LABEL=]PATH",
     .help = "where requests go; without LABEL: all other ones",
     .take = take_target},
    {FOR_BLOCKS, "engine", "NAME", "auto, io_uring, threads, nvme, dax, emulated or null",
     take_engine, AT(engine), .words = engine_words},
    {.group = FOR_BLOCKS,
     .name = "emulate",
     .value = "[LABEL:]SPEC",
     .help = "service times, KEY=VALUE,...: see INTERFACE.md",
     .take = take_device},
    {FOR_BLOCKS, "late", "POLICY", "catch-up, slip or drop what is late (default catch-up)",
     command_word, AT(pace.late), .words = pace_late_words},
    {FOR_BLOCKS, "late-limit-ns", "N", "later than this is late for them (default 1000000)",
     command_number, AT(pace.late_limit_ns), .maximum = INT64_MAX},
    {FOR_BLOCKS, "max-idle-ns", "N", "cut longer gaps between requests to this", command_number,
     AT(max_idle_ns), .maximum = INT64_MAX},
    {FOR_BLOCKS, "lead-ns", "N", "hand requests over so long before their times (default 0)",
     command_number, AT(pace.lead_ns), .maximum = LEAD_MOST_NS},
    {FOR_BLOCKS, "follow-lead", NULL, "let that follow what the kernel took for the last ones",
     command_flag, AT(follows_lead)},
    {FOR_BLOCKS, "follow-late-ns", "N", "how late the events are that it follows (default 0)",
     command_number, AT(follow_late_ns), .maximum = LEAD_MOST_NS},
    {FOR_BLOCKS, "from-ns", "N", "leave out the requests before this time of the plan",
     command_number, AT(from_ns), .maximum = INT64_MAX},
    {FOR_BLOCKS, "until-ns", "N", "leave out the requests from this time of the plan on",
     command_number, AT(until_ns), 1, INT64_MAX},
    {FOR_BLOCKS, "first", "N", "leave out the first N requests of the plan", command_number,
     AT(first), .maximum = INT64_MAX},
    {FOR_BLOCKS, "depth", "N", "most requests in flight (default 4096; 32 with fast)",
     command_small, AT(depth), 1, DEPTH_MAX},
    {FOR_BLOCKS, "threads", "N", "workers of the threads engine (default 32)", command_small,
     AT(threads), 1, THREADS_MAX},
    {FOR_BLOCKS, "submitters", "N", "threads that submit, each with an engine (default 1)",
     command_small, AT(submitters), 1, LANES_MAX},
    {FOR_BLOCKS, "sqpoll", NULL, "io_uring: a thread of the kernel submits, without calls",
     command_flag, AT(uring.is_submitted_for)},
    {FOR_BLOCKS, "sqpoll-cpu", "N", "keep that thread on this processor", command_small,
     AT(uring.cpu), .maximum = CPU_MAX},
    {FOR_BLOCKS, "sqpoll-idle-ms", "N", "without work for so long it sleeps (default 1000)",
     command_small, AT(uring.idle_ms), 1, IDLE_MS_MAX},
    {FOR_BLOCKS, "iopoll", NULL, "io_uring: look for completions, without interrupts", command_flag,
     AT(uring.is_polled)},
    {FOR_BLOCKS, "priority", "[LABEL=]CLASS", "of reads and writes: rt, be or idle, and :0 to :7",
     take_listed, AT(priority)},
    {FOR_BLOCKS, "direct", "WHEN", "O_DIRECT: auto, on or off (default auto)", command_word,
     AT(direct), .words = direct_words},
    {FOR_BLOCKS, "write-to", "TOKEN", "confirm that this existing target may be written",
     take_listed, AT(write_to)},
    {FOR_BLOCKS, "overwrite-signature", "NAME", "allow to destroy what bears it", take_listed,
     AT(overwrite)},
    {FOR_BLOCKS, "out-of-range", "POLICY",
     "refuse, wrap, skip, fold, scale or clip (default refuse)", command_word, AT(out_of_range),
     .words = fit_words},
    {FOR_BLOCKS, "overlaps", "POLICY", "allow, order or drop what meets one in flight",
     command_word, AT(overlaps), .words = overlap_words},
    {FOR_BLOCKS, "expand", NULL, "widen transfers to whole sectors of the target", command_flag,
     AT(expands)},
    {FOR_BLOCKS, "completions", "FILE", "write one record a request", command_text,
     AT(completions_path)},
    {FOR_BLOCKS, "done", "FILE", "leave out the records of these numbers: see INTERFACE.md",
     command_text, AT(done_path)},
    {FOR_BLOCKS, "no-calibration", NULL, "do not run the beginning on nothing before", command_flag,
     AT(is_raw)},
    {FOR_FILES, "repeat", "N", "run the plan N times; 0: until the time is up (default 1)",
     command_number, AT(repeats), .maximum = UINT32_MAX},
    {FOR_FILES, "duration-ns", "N", "end the run after this time", command_number, AT(duration_ns),
     1, TIME_MAX_NS},
    {FOR_FILES, "warm-up-ns", "N", "run so long before anything is measured", command_number,
     AT(warm_up_ns), .maximum = TIME_MAX_NS},
    {FOR_FILES, "prepare-threads", "N", "threads that make the files (default 4)", command_small,
     AT(prepare_threads), 1, PREPARE_THREADS_MAX},
    {FOR_FILES, "cache", "STATE", "before the run: keep, sync, or cold (drop caches)", command_word,
     AT(cache), .words = prepare_cache_words},
    {FOR_FILES, "interval-ns", "N", "of the rates over time (default 1000000000)", command_number,
     AT(interval_ns), INTERVAL_MIN_NS, TIME_MAX_NS},
    {FOR_FILES, "control-fd", "N",
     "descriptor to which enable and disable are written for perf stat --control",
     command_descriptor, AT(gate.control_fd)},
    {FOR_FILES, "ack-fd", "N", "descriptor from which perf's answers are read", command_descriptor,
     AT(gate.ack_fd)},
    {FOR_FILES, "results", "FILE", "write one record an operation", command_text, AT(results_path)},
    {FOR_FILES, "replace", NULL, "remove what an earlier run kept there", command_flag,
     AT(replaces)},
};

static int take_place(struct options *options, char *path) {
  if (options->plan_path == NULL)
    options->plan_path = path;
  else if (options->directory == NULL)
    options->directory = path;
  else {
    diag("one plan and at most one directory, not %s as well", path);
    return -EINVAL;
  }
  return 0;
}

static const char *const groups[] = {
    "options:", "only for a plan of blocks:", "only for a plan of files:", NULL};

static const struct command command = {
    .about = "usage: tracekit-replay PLAN [OPTIONS]\n       tracekit-replay PLAN DIRECTORY "
             "[OPTIONS]\n\nRuns a plan of I/O requests on files or block devices, or a plan of "
             "file operations in a\ndirectory of its own below DIRECTORY, and prints a JSON "
             "summary.\n",
    .codes = "\nexit codes: 0 all done, 1 failed or rejected, 2 usage, 3 interrupted, the disk is "
             "full, or some\nrequests or operations failed\n",
    .width = 34,
    .interface = TK_INTERFACE_VERSION,
    .groups = groups,
    .options = table,
    .count = sizeof table / sizeof *table,
    .take_place = take_place};

/* Ways of io_uring mean nothing to the other engines, priorities only to those that call the kernel
 * for each request. */
static int check_ways(const struct options *options) {
  const struct uring_modes *modes = &options->uring;
  bool is_uring = strcmp(options->engine, "auto") == 0 || strcmp(options->engine, "io_uring") == 0;
  bool has_ring = is_uring || strcmp(options->engine, "nvme") == 0;
  bool has_detail = modes->cpu != URING_ANY_CPU || modes->idle_ms > 0;
  if (modes->is_submitted_for && !has_ring)
    diag("--sqpoll needs --engine io_uring or nvme");
  else if (modes->is_polled && !has_ring)
    diag("--iopoll needs --engine io_uring or nvme");
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

/* What one thread alone can know or order is not for several. */
static int check_submitters(const struct options *options) {
  if (options->submitters == 1)
    return 0;
  if (options->pace.kind == PACE_CLOSED)
    diag("--submitters needs --pace trace or fast: a closed loop follows its own completions");
  else if (options->pace.late == PACE_SLIP)
    diag("--submitters needs --late catch-up or drop: one schedule cannot slip by threads");
  else if (strcmp(options->engine, "dax") == 0 || strcmp(options->engine, "emulated") == 0 ||
           strcmp(options->engine, "nvme") == 0)
    diag("--submitters needs --engine io_uring, threads or null, not %s", options->engine);
  else if (options->uring.is_submitted_for)
    diag("--submitters and --sqpoll exclude each other: when the kernel's thread has submitted a "
         "request is not known");
  else if (options->depth < options->submitters)
    diag("--submitters %u needs a --depth of as much, not %u", options->submitters, options->depth);
  else
    return 0;
  return -EINVAL;
}

/* What makes no sense together is rejected before anything is opened. */
static int check_blocks(const struct options *options) {
  bool is_null = strcmp(options->engine, "null") == 0;
  bool is_emulated = strcmp(options->engine, "emulated") == 0;
  if (options->directory != NULL)
    diag("%s is a plan of blocks, which takes no directory such as %s: name a --target",
         options->plan_path, options->directory);
  else if (options->pace.kind != PACE_TRACE && options->pace.late != PACE_CATCH_UP)
    diag("--late %s needs --pace trace", pace_late_words[options->pace.late]);
  else if (options->pace.kind == PACE_FAST && (options->pace.lead_ns > 0 || options->follows_lead))
    diag("%s needs times: --pace trace or closed",
         options->follows_lead ? "--follow-lead" : "--lead-ns");
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
    return check_ways(options) != 0 ? -EINVAL : check_submitters(options);
  return -EINVAL;
}

static int check_files(const struct options *options) {
  if (options->directory == NULL)
    diag("%s is a plan of files: in which directory? see --help", options->plan_path);
  else if (options->repeats == 0 && options->duration_ns == 0)
    diag("--repeat 0 needs --duration-ns: it would never end");
  else
    return 0;
  return -EINVAL;
}

/* Returns the kind of the plan by its first bytes. Where these show none, it is what the command
 * line looks like, and the plan's reader reports what is wrong with the file. */
static enum plan_kind kind_of_plan(const struct options *options) {
  char magic[8] = "";
  int fd = open(options->plan_path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  bool is_read = fd >= 0 && pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic;
  if (fd >= 0)
    (void)close(fd); /* only read */
  if (is_read && memcmp(magic, FILE_PLAN_MAGIC, sizeof magic) == 0)
    return PLAN_OF_FILES;
  if (is_read && memcmp(magic, BLOCK_PLAN_MAGIC, sizeof magic) == 0)
    return PLAN_OF_BLOCKS;
  return options->directory != NULL ? PLAN_OF_FILES : PLAN_OF_BLOCKS;
}

/* Rejects the options that are not for a plan of this kind. */
static int check_given(const struct options *options, uint64_t given) {
  unsigned other = options->kind == PLAN_OF_FILES ? FOR_BLOCKS : FOR_FILES;
  for (uint32_t i = 0; i < command.count; i++)
    if ((given >> i & 1) != 0 && table[i].group == other) {
      diag("--%s is only for a plan of %s, and %s is a plan of %s", table[i].name,
           other == FOR_BLOCKS ? "blocks" : "files", options->plan_path,
           other == FOR_BLOCKS ? "files" : "blocks");
      return -EINVAL;
    }
  return 0;
}

static void set_defaults(struct options *options) {
  memset(options, 0, sizeof *options);
  options->engine = "auto";
  options->speed = (struct fraction){.numerator = 1, .denominator = 1};
  options->pace.kind = PACE_UNSET;
  options->pace.late_limit_ns = LATE_LIMIT_NS;
  options->progress_fd = STDERR_FILENO;
  options->gate = (struct perf_gate){.control_fd = -1, .ack_fd = -1};
  options->threads = 32;
  options->submitters = 1;
  options->uring.cpu = URING_ANY_CPU;
  options->until_ns = UINT64_MAX;
  options->max_idle_ns = UINT64_MAX;
  options->repeats = 1;
  options->prepare_threads = 4;
  options->interval_ns = 1000000000U;
}

/* Sets what depends on other options where it was not given. */
static void complete(struct options *options) {
  bool is_shown = !options->is_quiet && isatty(options->progress_fd) == 1;
  if (options->pace.kind == PACE_UNSET)
    options->pace.kind = options->kind == PLAN_OF_FILES ? PACE_FAST : PACE_TRACE;
  if (options->depth == 0)
    options->depth = options->pace.kind == PACE_FAST ? 32 : 4096;
  options->progress_fd = is_shown ? options->progress_fd : -1;
}

int options_parse(struct options *options, int count, char **arguments) {
  uint64_t given = 0;
  set_defaults(options);
  int rc = command_parse(&command, options, &given, count, arguments);
  if (rc != 0)
    return rc;
  if (options->plan_path == NULL) {
    diag("which plan? see --help");
    return -EINVAL;
  }
  options->kind = kind_of_plan(options);
  complete(options);
  rc = check_given(options, given);
  if (rc != 0)
    return rc;
  return options->kind == PLAN_OF_FILES ? check_files(options) : check_blocks(options);
}

int options_check_outputs(const struct options *options) {
  enum { FILES = 5 };
  struct output_use uses[OPTIONS_LIST_MAX + FILES] = {
      {"the completions", options->completions_path, true},
      {"the list of records to leave out", options->done_path, false},
      {"the results", options->results_path, true},
      {"the summary", options->summary_path, true},
      {"the plan", options->plan_path, false},
  };
  for (uint32_t i = 0; i < options->target_count; i++)
    uses[FILES + i] = (struct output_use){"a target", options->targets[i].path, false};
  return output_check(uses, FILES + options->target_count);
}
