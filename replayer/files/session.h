/* One use of the program: everything that a run needs, opened in order and closed in reverse. */
#ifndef TRACEKIT_FILES_SESSION_H
#define TRACEKIT_FILES_SESSION_H

#include "files/crew.h"
#include "files/folder.h"
#include "files/options.h"
#include "files/room.h"

struct session {
  const struct options *options; /* borrowed */
  struct plan plan;
  struct paths paths;
  struct handles handles;
  struct buffers buffers;
  struct folder folder;
  struct room room;
  struct operation_place place;
  struct prepare_report prepared;
  struct results *results;
  struct crew crew;
  struct crew_report report; /* its tally is NULL when nothing ran */
  struct timeline timeline;
  uint64_t cpu_user_ns; /* of the run alone */
  uint64_t cpu_system_ns;
};

/* Runs the program as the options say and writes the summary. Returns the exit code: 0 all done,
 * 1 failed or refused (said on stderr), 3 interrupted, full, or some operations failed. */
int session_run(struct session *session, const struct options *options);

#endif
