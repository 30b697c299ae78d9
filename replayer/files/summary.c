#include "files/summary.h"

#include <errno.h>
#include <string.h>
#include <sys/statfs.h>

#include "replay/json.h"
#include "replay/report.h"

static const char *const pace_names[] = {"fast", "trace", "closed"};
static const char *const cache_names[] = {"keep", "sync", "cold"};
static const char *const found_names[] = {"nothing", "killed run", "kept run"};
static const char *const end_names[] = {"nothing", "plan", "time", "signal", "full", "results"};

static void write_plan(struct json *json, const struct plan *plan) {
  json_open(json, "plan", '{');
  json_number(json, "records", plan->record_count);
  json_number(json, "threads", plan->thread_count);
  json_number(json, "files", plan->file_count);
  json_number(json, "steps", plan->step_count);
  json_number(json, "handles", plan->handle_count);
  json_number(json, "duration_ns", plan->duration_ns);
  json_number(json, "needed_bytes", plan->needed_bytes);
  json_bool(json, "is_repeatable", plan->is_repeatable);
  json_close(json, '}');
}

static void write_directory(struct json *json, const struct session *session) {
  const struct room *room = &session->room;
  struct statfs status;
  char type[32] = "";
  if (fstatfs(session->folder.run_fd, &status) == 0)
    (void)snprintf(type, sizeof type, "0x%lx", (unsigned long)status.f_type); /* always fits */
  json_open(json, "directory", '{');
  json_text(json, "path", session->options->directory);
  json_text(json, "file_system_magic", type[0] == '\0' ? NULL : type);
  json_number(json, "needed_bytes", room->needed_bytes);
  json_number(json, "free_bytes", room->free_bytes);
  json_number(json, "needed_files", room->needed_files);
  json_number(json, "file_limit", room->file_limit);
  json_bool(json, "is_kept", session->options->keeps);
  json_text(json, "replaced", found_names[session->folder.found]);
  json_close(json, '}');
}

static void write_preparation(struct json *json, const struct session *session) {
  const struct prepare_report *report = &session->prepared;
  json_open(json, "preparation", '{');
  json_number(json, "files", report->files);
  json_number(json, "directories", report->directories);
  json_number(json, "bytes", report->bytes);
  json_number(json, "elapsed_ns", report->elapsed_ns);
  json_text(json, "cache", cache_names[session->options->cache]);
  json_text(json, "dropped", report->dropped);
  json_close(json, '}');
}

static void write_settings(struct json *json, const struct crew_settings *run) {
  json_text(json, "pace", pace_names[run->pace]);
  report_speed(json, &run->speed);
  json_number(json, "repeats", run->repeats);
  json_number(json, "duration_limit_ns", run->duration_ns);
  json_number(json, "warm_up_ns", run->warm_up_ns);
}

static void write_counts(struct json *json, const struct crew_report *report) {
  const struct tally *tally = report->tally;
  json_open(json, "counts", '{');
  json_number(json, "operations", tally->count);
  json_number(json, "failed", tally->failed);
  json_number(json, "steps", tally->step_count);
  json_number(json, "untimed", tally->untimed);
  json_number(json, "untimed_ns", tally->untimed_ns);
  json_number(json, "bytes", tally->bytes);
  json_number(json, "cycles", report->cycles);
  json_close(json, '}');
}

static void write_timing(struct json *json, const struct session *session) {
  const struct tally *tally = session->report.tally;
  double seconds = (double)session->report.elapsed_ns / 1e9;
  json_open(json, "timing", '{');
  json_number(json, "elapsed_ns", session->report.elapsed_ns);
  json_real(json, "operations_per_second", seconds > 0 ? (double)tally->count / seconds : 0.0);
  json_real(json, "steps_per_second", seconds > 0 ? (double)tally->step_count / seconds : 0.0);
  json_real(json, "bytes_per_second", seconds > 0 ? (double)tally->bytes / seconds : 0.0);
  json_number(json, "cpu_user_ns", session->cpu_user_ns);
  json_number(json, "cpu_system_ns", session->cpu_system_ns);
  json_close(json, '}');
}

static void write_class(struct json *json, const char *name, const struct tally_class *class) {
  if (class == NULL || class->done + class->failed == 0)
    return;
  json_open(json, NULL, '{');
  json_text(json, "name", name);
  json_number(json, "done", class->done);
  json_number(json, "failed", class->failed);
  json_number(json, "expected_errors", class->expected);
  json_number(json, "bytes", class->bytes);
  json_number(json, "short", class->short_count);
  report_histogram(json, "latency", &class->latency);
  report_steps(json, "histogram", &class->latency);
  json_close(json, '}');
}

static void write_classes(struct json *json, const struct session *session) {
  const struct tally *tally = session->report.tally;
  json_open(json, "operations", '[');
  for (unsigned i = 0; i < PLAN_OPERATIONS; i++)
    write_class(json, plan_operation_name((enum plan_operation)i), tally->operations[i]);
  json_close(json, ']');
  json_open(json, "steps", '[');
  for (unsigned i = 0; i < session->plan.step_count; i++)
    write_class(json, session->plan.steps[i].label, tally->steps[i]);
  json_close(json, ']');
}

static void write_error(struct json *json, enum plan_operation operation, unsigned number,
                        uint64_t count) {
  if (count == 0)
    return;
  json_open(json, NULL, '{');
  json_text(json, "operation", plan_operation_name(operation));
  report_error(json, number);
  json_number(json, "count", count);
  json_close(json, '}');
}

static void write_errors(struct json *json, const struct tally *tally) {
  json_open(json, "errors", '[');
  for (unsigned i = 0; i < PLAN_OPERATIONS; i++)
    for (unsigned number = 0; number < TALLY_ERRORS; number++)
      write_error(json, (enum plan_operation)i, number, tally->errors[i][number]);
  json_close(json, ']');
}

static void write_timeline(struct json *json, const struct timeline *timeline) {
  json_open(json, "timeline", '[');
  for (uint32_t i = 0; i < timeline->count; i++) {
    json_open(json, NULL, '{');
    json_number(json, "end_ns", timeline->rows[i].end_ns);
    json_number(json, "operations", timeline->rows[i].operations);
    json_number(json, "bytes", timeline->rows[i].bytes);
    json_number(json, "failed", timeline->rows[i].failed);
    json_close(json, '}');
  }
  json_close(json, ']');
}

static const char *outcome_name(const struct session *session, int error) {
  if (error == -EINTR)
    return "interrupted";
  if (error != 0 || session->report.end == CREW_RESULTS)
    return "failed";
  if (session->report.end == CREW_SIGNAL)
    return "interrupted";
  return session->report.end == CREW_FULL ? "full" : "finished";
}

static void write_all(struct json *json, const void *context) {
  const struct session *session = context;
  write_plan(json, &session->plan);
  write_directory(json, session);
  write_preparation(json, session);
  write_settings(json, &session->options->run);
  if (session->report.tally != NULL) {
    write_counts(json, &session->report);
    write_timing(json, session);
    report_histogram(json, "issue_error", &session->report.tally->issue_error);
    write_classes(json, session);
    write_errors(json, session->report.tally);
    write_timeline(json, &session->timeline);
  }
  json_number(json, "peak_memory_bytes", report_peak_memory_bytes());
}

int summary_write(const struct session *session, int error) {
  struct report_head head = {.outcome = outcome_name(session, error),
                             .ended_by = end_names[session->report.end],
                             .error = error};
  return report_write(session->options->summary_path, &head, write_all, session);
}
