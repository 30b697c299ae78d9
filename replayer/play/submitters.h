/* A run by several submitting threads: each has an engine, a part of the plan and a log of its own,
 * and all have one timeline. */
#ifndef TRACEKIT_PLAY_SUBMITTERS_H
#define TRACEKIT_PLAY_SUBMITTERS_H

#include <stdint.h>

#include "play/block_run.h"

struct submitters_rules {
  uint32_t count;                     /* 2 to LANES_MAX */
  const struct engine_config *engine; /* borrowed, as the next four: of each thread's own engine */
  struct feed *feed;                  /* with as many lanes */
  struct completions *log;            /* as `feed` */
  struct progress_view *views;        /* one a thread */
  struct engine_report *report;       /* of the first one's engine: the others' counts are added */
};

struct submitters;

/* Starts all threads but the calling one, which becomes the first, and their engines. `config` is
 * the first one's and gets what concerns several. Returns 0 or -errno after a line on stderr; end
 * it with submitters_end, or, before the run, submitters_close. */
int submitters_start(struct submitters **out, const struct submitters_rules *rules,
                     struct block_run_config *config);

/* Lets the others run: the clock value of the run's time 0 is soon, and goes into `config`. */
void submitters_go(struct submitters *submitters, struct block_run_config *config);

/* Waits for the others, and adds what they did to the statistics and the report of the first one.
 * One that hangs in a call when the end is forced is left there, with what it has in flight logged
 * as unknown. `outcome` and *error are those of the first one; returns those of all. */
enum block_run_outcome submitters_end(struct submitters *submitters, enum block_run_outcome outcome,
                                      int *error);

/* Frees what is not in use by a thread that hangs; NULL is fine. */
void submitters_close(struct submitters *submitters);

#endif
