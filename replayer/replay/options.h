/* The command line. */
#ifndef TRACEKIT_REPLAY_OPTIONS_H
#define TRACEKIT_REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/device.h"
#include "replay/feed.h"
#include "replay/plan.h"
#include "replay/run.h"
#include "replay/target.h"
#include "replay/uring_modes.h"

#define OPTIONS_LIST_MAX 64U

struct options_target {
  const char *label; /* NULL: for every target of the plan that has none of its own */
  const char *path;
};

struct options_device {
  const char *label; /* NULL: for every target of the plan that has none of its own */
  struct device_spec spec;
};

struct options_list {
  const char *texts[OPTIONS_LIST_MAX];
  uint32_t count;
};

struct options {
  const char *plan_path;
  struct options_target targets[OPTIONS_LIST_MAX];
  uint32_t target_count;
  struct options_device devices[OPTIONS_LIST_MAX]; /* emulated ones */
  uint32_t device_count;
  struct options_list write_to;  /* confirmations */
  struct options_list overwrite; /* names of signatures */
  struct options_list priority;  /* [LABEL=]CLASS[:LEVEL] */
  const char *engine;            /* "auto", "io_uring", "threads", "emulated" or "null" */
  struct pace_rules pace;
  struct fraction speed;
  uint64_t from_ns;     /* of the plan: earlier requests are left out */
  uint64_t until_ns;    /* of the plan: from there requests are left out */
  uint64_t first;       /* records of the plan to leave out */
  uint64_t max_idle_ns; /* longer gaps are cut to it */
  uint32_t depth;       /* most requests in flight; 0: by the pace */
  uint32_t threads;
  struct uring_modes uring; /* --sqpoll, --iopoll */
  enum target_direct direct;
  enum place_policy out_of_range;
  enum overlap_policy overlaps;
  bool expands;                 /* transfers to whole sectors of the target */
  const char *completions_path; /* NULL: none */
  const char *summary_path;     /* NULL: stdout */
  bool is_raw;                  /* no calibration before the run */
  bool keep;                    /* leave files made for the run */
  bool is_dry_run;
  int progress_fd; /* a progress line goes there when it is a terminal */
  bool is_quiet;
  uint32_t parent; /* process whose end stops the run; 0: none */
};

/* Reads the command line; strings are borrowed from `arguments`, which it may cut at "=". Returns
 * 0, 1 when all that was asked for is printed, or -EINVAL after a line on stderr. */
int options_parse(struct options *options, int count, char **arguments);

/* Refuses outputs that are also something else which the run needs; before the targets are made.
 * Returns 0 or -errno after a line on stderr. */
int options_check_outputs(const struct options *options);

#endif
