/* The command line of the program. */
#ifndef TRACEKIT_FILES_OPTIONS_H
#define TRACEKIT_FILES_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "files/crew.h"
#include "files/prepare.h"

struct options {
  const char *plan_path; /* this and the next three point into the command line */
  const char *directory;
  const char *results_path; /* NULL: no results */
  const char *summary_path; /* NULL: stdout */
  struct crew_settings run;
  uint32_t prepare_threads;
  enum prepare_cache cache;
  uint64_t interval_ns; /* of the timeline */
  int progress_fd;
  bool keeps;
  bool replaces;
  bool ignores_space;
  bool is_quiet;
  uint32_t parent; /* process whose end stops the run; 0: none */
};

/* Reads the command line. Returns 0, 1 when all that was asked for is printed, or -EINVAL after a
 * line on stderr. */
int options_parse(struct options *options, int count, char **arguments);

/* Refuses outputs that are also something else which the run needs.
 * Returns 0 or -errno after a line on stderr. */
int options_check_outputs(const struct options *options);

#endif
