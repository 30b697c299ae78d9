#include "files/session.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "files/summary.h"
#include "replay/diag.h"
#include "replay/stop.h"

static uint64_t nanoseconds(const struct timeval *time) {
  return (uint64_t)time->tv_sec * 1000000000U + (uint64_t)time->tv_usec * 1000U;
}

/* Memory for the plan; says what is missing. */
static int open_memory(struct session *session) {
  struct plan *plan = &session->plan;
  uint64_t longest = plan->max_transfer_bytes;
  int rc = paths_open(&session->paths, plan);
  if (rc == 0)
    rc = handles_open(&session->handles, plan->handle_count);
  if (rc == 0)
    rc = buffers_open(&session->buffers,
                      longest > PREPARE_CHUNK_BYTES ? longest : PREPARE_CHUNK_BYTES);
  if (rc == -ENOMEM)
    diag("no memory for the run: %s", strerror(-rc));
  return rc;
}

static int check_repeats(const struct session *session) {
  if (session->plan.is_repeatable || session->options->run.repeats == 1)
    return 0;
  diag("%s cannot be repeated: its end does not leave the files as they were at its start",
       session->options->plan_path);
  return -EINVAL;
}

/* Everything before the first operation. */
static int prepare(struct session *session) {
  const struct options *options = session->options;
  int rc = check_repeats(session);
  if (rc == 0)
    rc = open_memory(session);
  if (rc == 0)
    rc = folder_open(&session->folder, options->directory, options->replaces);
  if (rc == 0)
    rc = room_check(&session->room, &session->plan, session->folder.run_fd, options->ignores_space);
  if (rc == 0)
    rc = results_open(&session->results, options->results_path);
  if (rc != 0)
    return rc;
  session->place = (struct operation_place){.paths = &session->paths,
                                            .handles = &session->handles,
                                            .buffers = &session->buffers,
                                            .run_fd = session->folder.run_fd};
  return prepare_files(&session->plan, &session->place, options->prepare_threads, options->cache,
                       &session->prepared);
}

static int run(struct session *session) {
  struct rusage before;
  struct rusage after;
  session->crew = (struct crew){.plan = &session->plan,
                                .place = &session->place,
                                .settings = &session->options->run,
                                .results = session->results};
  session->timeline.interval_ns = session->options->interval_ns;
  (void)getrusage(RUSAGE_SELF, &before); /* cannot fail for these arguments */
  int rc = crew_run(&session->crew, &session->timeline, &session->report);
  (void)getrusage(RUSAGE_SELF, &after);
  session->cpu_user_ns = nanoseconds(&after.ru_utime) - nanoseconds(&before.ru_utime);
  session->cpu_system_ns = nanoseconds(&after.ru_stime) - nanoseconds(&before.ru_stime);
  int finished = results_finish(session->results);
  return rc != 0 ? rc : finished;
}

static int close_all(struct session *session) {
  handles_close(&session->handles);
  int rc = folder_close(&session->folder, session->options->keeps);
  results_close(session->results);
  tally_free(session->report.tally);
  buffers_close(&session->buffers);
  paths_close(&session->paths);
  plan_close(&session->plan);
  return rc;
}

static int exit_code(const struct session *session, int rc) {
  if (rc == -EINTR)
    return 3;
  if (rc != 0)
    return 1;
  const struct crew_report *report = &session->report;
  bool is_whole = report->end == CREW_PLAN || report->end == CREW_TIME;
  return is_whole && report->tally->failed == 0 ? 0 : 3;
}

int session_run(struct session *session, const struct options *options) {
  memset(session, 0, sizeof *session);
  session->folder = (struct folder){.target_fd = -1, .own_fd = -1, .mark_fd = -1, .run_fd = -1};
  session->options = options;
  if (options_check_outputs(options) != 0 || plan_open(&session->plan, options->plan_path) != 0)
    return 1;
  int rc = prepare(session);
  /* A preparation that a signal ended is told as such, by a summary without a run. */
  bool has_begun = rc == 0 || rc == -EINTR;
  if (rc == 0)
    rc = run(session);
  int code = exit_code(session, rc);
  if (has_begun && summary_write(session, rc) != 0)
    code = 1;
  return close_all(session) != 0 ? 1 : code;
}
