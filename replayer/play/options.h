/* The command line. */
#ifndef TRACEKIT_PLAY_OPTIONS_H
#define TRACEKIT_PLAY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "play/emulated_device.h"
#include "play/fit.h"
#include "play/number.h"
#include "play/overlap.h"
#include "play/pace.h"
#include "play/perf_gate.h"
#include "play/prepare.h"
#include "play/target.h"
#include "play/uring_modes.h"

#define OPTIONS_LIST_MAX 64U

/* What a plan consists of. */
enum plan_kind { PLAN_OF_BLOCKS, PLAN_OF_FILES };

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
  /* Of every plan. Times are those of the plan unless they say otherwise. */
  enum plan_kind kind; /* by the plan's first bytes */
  const char *plan_path;
  const char *directory;    /* of a plan of files, else NULL */
  const char *summary_path; /* NULL: stdout */
  struct pace_rules pace;
  struct fraction speed; /* divides the plan's times */
  bool keep;             /* leave files made for the run */
  int progress_fd;       /* a terminal for the progress line; -1: there is none */
  bool is_quiet;
  bool ignores_space; /* that is missing */
  bool is_dry_run;    /* nothing is made, read or written */
  uint32_t parent;    /* process whose end stops the run; 0: none */

  /* Of a plan of blocks. */
  struct options_target targets[OPTIONS_LIST_MAX];
  uint32_t target_count;
  struct options_device devices[OPTIONS_LIST_MAX]; /* emulated ones */
  uint32_t device_count;
  struct options_list write_to;  /* confirmations */
  struct options_list overwrite; /* names of signatures */
  struct options_list priority;  /* [LABEL=]CLASS[:LEVEL] */
  const char *engine;            /* a word of --engine */
  uint64_t from_ns;              /* earlier requests are left out */
  uint64_t until_ns;             /* from there requests are left out */
  uint64_t first;                /* records of the plan to leave out */
  uint64_t max_idle_ns;          /* longer gaps are cut to it */
  uint32_t depth;                /* most requests in flight */
  uint32_t threads;              /* of the threads engine */
  uint32_t submitters;           /* threads that submit */
  bool follows_lead;             /* the lead, by the kernel's events */
  uint64_t follow_late_ns;       /* how late these are */
  struct uring_modes uring;      /* --sqpoll, --iopoll */
  enum target_direct direct;
  enum fit_policy out_of_range;
  enum overlap_policy overlaps;
  bool expands;                 /* transfers to whole sectors of the target */
  const char *completions_path; /* NULL: none */
  const char *done_path;        /* numbers of records to leave out; NULL: none */
  bool is_raw;                  /* no calibration before the run */

  /* Of a plan of files. */
  const char *results_path; /* NULL: none */
  uint64_t repeats;         /* of the plan; 0: until the time is up */
  uint64_t duration_ns;     /* of the measured time, by the clock; 0: no limit */
  uint64_t warm_up_ns;      /* before it, by the clock */
  uint64_t interval_ns;     /* of the timeline, by the clock */
  uint32_t prepare_threads;
  enum prepare_cache cache;
  bool replaces; /* what an earlier run kept */
  struct perf_gate gate;
};

/* Reads the command line, and the first bytes of the plan to know its kind; strings are borrowed
 * from `arguments`, which it may cut at "=". Returns 0, 1 when all that was asked for is printed,
 * or -EINVAL after a line on stderr. */
int options_parse(struct options *options, int count, char **arguments);

/* Rejects outputs that are also something else which the run needs; before anything is made.
 * Returns 0 or -errno after a line on stderr. */
int options_check_outputs(const struct options *options);

#endif
