/* The threads of a run, started together and watched until the last one has ended. */
#ifndef TRACEKIT_FILES_CREW_H
#define TRACEKIT_FILES_CREW_H

#include "files/operation.h"
#include "files/results.h"
#include "files/tally.h"
#include "files/timeline.h"
#include "replay/number.h"

enum crew_pace { CREW_FAST, CREW_TRACE, CREW_CLOSED };

/* Why a run ended, in the order of precedence. */
enum crew_end { CREW_GOES_ON, CREW_PLAN, CREW_TIME, CREW_SIGNAL, CREW_FULL, CREW_RESULTS };

struct crew_settings {
  enum crew_pace pace;
  struct fraction speed; /* divides the plan's times */
  uint64_t repeats;      /* of the plan; 0: until the time is up */
  uint64_t duration_ns;  /* of the measured time; 0: no limit */
  uint64_t warm_up_ns;   /* before it */
  int progress_fd;       /* a terminal, -1: none */
};

struct worker;

struct crew {
  const struct plan *plan; /* borrowed, as are the next three */
  const struct operation_place *place;
  const struct crew_settings *settings;
  struct results *results;
  struct worker *workers; /* one a thread of the plan */
  uint64_t spin_ns;       /* how long before a deadline a thread stops sleeping */
  uint64_t start_ns;      /* clock: first operation */
  uint64_t measure_ns;    /* clock: the warm-up is over */
  uint64_t limit_ns;      /* clock: the time is up */
  _Atomic uint32_t running;
  _Atomic int end; /* enum crew_end */
};

/* What a run came to. */
struct crew_report {
  enum crew_end end;
  uint64_t elapsed_ns; /* of the measured time, to the end of the last operation */
  uint64_t cycles;     /* that every thread has completed */
  struct tally *tally; /* of all threads; the caller frees it with tally_free */
};

/* Runs the plan and fills report and timeline, whose interval_ns is set. Returns 0 or -errno after
 * a line on stderr. */
int crew_run(struct crew *crew, struct timeline *timeline, struct crew_report *report);

/* Ends the run for all threads, unless it ends already. Any thread. */
void crew_stop(struct crew *crew, enum crew_end why);

#endif
