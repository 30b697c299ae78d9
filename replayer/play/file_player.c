#include "play/file_player.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "play/diag.h"
#include "play/file_plan_read.h"
#include "play/file_preflight.h"
#include "play/file_summary.h"
#include "play/stop.h"

/* Memory for the plan; says what is missing. */
static int open_memory(struct file_session *session) {
  struct file_plan *plan = &session->plan;
  uint64_t longest = plan->max_transfer_bytes;
  int rc = handle_table_open(&session->handles, plan->handle_count);
  if (rc == 0)
    rc = buffers_open(&session->buffers,
                      longest > PREPARE_CHUNK_BYTES ? longest : PREPARE_CHUNK_BYTES);
  if (rc == 0 && plan->flow.header != NULL)
    rc = flow_open(&session->flow, plan);
  if (rc == -ENOMEM)
    diag("no memory for the run: %s", strerror(-rc));
  return rc;
}

static int check_repeats(const struct file_session *session) {
  if (session->plan.is_repeatable || session->options->repeats == 1)
    return 0;
  diag("%s cannot be repeated: its end does not leave the files as they were at its start",
       session->options->plan_path);
  return -EINVAL;
}

/* Whether the run can succeed, with its directory made, and in a dry run without. */
static int check(struct file_session *session) {
  const struct options *options = session->options;
  int rc = check_repeats(session);
  if (rc == 0)
    rc = file_paths_open(&session->paths, &session->plan);
  if (rc == -ENOMEM)
    diag("no memory for the paths of %s: %s", options->plan_path, strerror(-rc));
  if (rc == 0 && options->is_dry_run)
    rc = run_folder_look(&session->folder, options->directory, options->replaces);
  else if (rc == 0)
    rc = run_folder_open(&session->folder, options->directory, options->replaces);
  return rc == 0 ? file_preflight_check(session) : rc;
}

/* Everything between that and the first operation. */
static int prepare(struct file_session *session) {
  const struct options *options = session->options;
  int rc = open_memory(session);
  if (rc == 0)
    rc = results_open(&session->results, options->results_path);
  if (rc != 0)
    return rc;
  session->context = (struct file_context){.paths = &session->paths,
                                           .handles = &session->handles,
                                           .buffers = &session->buffers,
                                           .run_fd = session->folder.run_fd};
  return prepare_files(&session->plan, &session->context, options->prepare_threads, options->cache,
                       &session->prepared);
}

static void report_empty(const struct file_session *session) {
  const struct file_record *record = &session->plan.records[session->flow.empty_record];
  const char *what = record->operation == FILE_CREATE || record->operation == FILE_MKDIR
                         ? "make: all are there"
                         : "use: none is there";
  diag("after %.1f s the operation %s found no file to %s; run for a shorter time, or use more "
       "files",
       (double)session->report.elapsed_ns / 1e9,
       record->step == FILE_NO_STEP ? "" : session->plan.steps[record->step].label, what);
}

/* The results are completed even after a failure, since they show how far the run came. */
static int run(struct file_session *session) {
  const struct options *options = session->options;
  struct fidelity_host before;
  session->settings = (struct worker_settings){.pace = options->pace.kind,
                                               .speed = options->speed,
                                               .repeats = options->repeats,
                                               .duration_ns = options->duration_ns,
                                               .warm_up_ns = options->warm_up_ns,
                                               .progress_fd = options->progress_fd,
                                               .gate = options->gate};
  session->run = (struct file_run){.plan = &session->plan,
                                   .context = &session->context,
                                   .settings = &session->settings,
                                   .results = session->results,
                                   .flow = session->flow.plan == NULL ? NULL : &session->flow};
  session->timeline.interval_ns = options->interval_ns;
  if (session->plan.memory != NULL)
    memory_wait_open(&session->run.wait, session->plan.memory);
  fidelity_read_host(&before);
  stop_enter(STOP_RUN);
  int rc = thread_pool_run(&session->run, &session->timeline, &session->report);
  fidelity_read_host(&session->host);
  fidelity_subtract_host(&session->host, &before);
  stop_enter(STOP_SAVE);
  int finished = results_finish(session->results);
  if (session->report.end == RUN_END_FILES)
    report_empty(session);
  return rc != 0 ? rc : finished;
}

static int close_all(struct file_session *session) {
  handle_table_close(&session->handles);
  const struct options *options = session->options;
  int rc = run_folder_close(&session->folder, options->directory, options->keep);
  results_close(session->results);
  file_stats_free(session->report.stats);
  flow_close(&session->flow);
  buffers_close(&session->buffers);
  file_paths_close(&session->paths);
  file_plan_close(&session->plan);
  return rc;
}

/* A file system may say of a call, too, that it was interrupted. */
static bool was_stopped(int rc) { return rc == -EINTR && stop_requested(); }

static int exit_code(const struct file_session *session, int rc) {
  if (was_stopped(rc))
    return 3;
  if (rc != 0)
    return 1;
  if (session->options->is_dry_run)
    return 0;
  const struct thread_pool_report *report = &session->report;
  bool is_whole = report->end == RUN_END_PLAN || report->end == RUN_END_TIME;
  return is_whole && report->stats->failed == 0 ? 0 : 3;
}

static int play(struct file_session *session) {
  const struct options *options = session->options;
  int rc = check(session);
  bool is_real = !options->is_dry_run;
  if (rc == 0 && is_real)
    rc = prepare(session);
  /* A preparation that a signal ended is reported as such, by a summary without a run. */
  bool has_begun = rc == 0 || was_stopped(rc);
  if (rc == 0 && is_real)
    rc = run(session);
  int code = exit_code(session, rc);
  stop_enter(STOP_SAVE);
  if (has_begun && file_summary_write(session, rc) != 0)
    code = 1;
  stop_saved(code);
  /* Threads that hang hold files: the folder stays, and the next run there removes it. */
  if (session->report.unknown > 0) {
    diag("%s/" RUN_FOLDER_NAME " stays until the next run there: operations under way hold it",
         options->directory);
    stop_leave(code);
  }
  return close_all(session) != 0 ? 1 : code;
}

int file_player_run(const struct options *options) {
  struct file_session *session = calloc(1, sizeof *session);
  if (session == NULL) {
    diag("no memory for the run: %s", strerror(errno));
    return 1;
  }
  session->folder = (struct run_folder){.target_fd = -1, .own_fd = -1, .mark_fd = -1, .run_fd = -1};
  session->options = options;
  int code = file_plan_open(&session->plan, options->plan_path) != 0 ? 1 : play(session);
  free(session);
  return code;
}
