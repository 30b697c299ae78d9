#include "play/file_summary.h"

#include <errno.h>
#include <string.h>
#include <sys/statfs.h>

#include "play/flow_writes.h"
#include "play/json.h"
#include "play/summary.h"

static const char *const found_names[] = {"nothing", "killed run", "kept run"};
static const char *const end_names[] = {"nothing", "plan", "time",   "signal",
                                        "files",   "full", "results"};

/* What is there before the first operation. */
static void write_present(struct json *json, const struct file_plan *plan) {
  uint64_t counts[] = {[FILE_REGULAR] = 0, [FILE_DIRECTORY] = 0};
  uint64_t bytes = 0;
  uint32_t longest = 0;
  for (uint32_t i = 0; i < plan->file_count; i++) {
    const struct file_entry *file = &plan->files[i];
    counts[file->kind] += file->is_present;
    bytes += file->is_present ? file->size_bytes : 0;
    longest = file->name_bytes > longest ? file->name_bytes : longest;
  }
  json_number(json, "present_files", counts[FILE_REGULAR]);
  json_number(json, "present_directories", counts[FILE_DIRECTORY]);
  json_number(json, "present_bytes", bytes);
  json_number(json, "longest_name_bytes", longest);
}

static void write_plan(struct json *json, const struct file_plan *plan) {
  json_open(json, "plan", '{');
  json_number(json, "records", plan->record_count);
  json_number(json, "threads", file_plan_own_threads(plan));
  json_number(json, "writers", plan->thread_count - file_plan_own_threads(plan));
  json_number(json, "files", plan->file_count);
  write_present(json, plan);
  json_number(json, "steps", plan->step_count);
  json_number(json, "handles", plan->handle_count);
  json_number(json, "duration_ns", plan->duration_ns);
  json_number(json, "needed_bytes", plan->needed_bytes);
  json_bool(json, "is_repeatable", plan->is_repeatable);
  json_close(json, '}');
}

/* What has no limit, or none that is known, is null. */
static void write_limit(struct json *json, const char *key, uint64_t value) {
  if (value == UINT64_MAX)
    json_text(json, key, NULL);
  else
    json_number(json, key, value);
}

static void write_directory(struct json *json, const struct file_session *session) {
  const struct free_space *space = &session->space;
  struct statfs status;
  char type[32] = "";
  if (fstatfs(session->folder.target_fd, &status) == 0)
    (void)snprintf(type, sizeof type, "0x%lx", (unsigned long)status.f_type); /* always fits */
  json_open(json, "directory", '{');
  json_text(json, "path", session->options->directory);
  json_text(json, "file_system", session->file_system[0] == '\0' ? NULL : session->file_system);
  json_text(json, "file_system_magic", type[0] == '\0' ? NULL : type);
  json_number(json, "needed_bytes", space->needed_bytes);
  write_limit(json, "free_bytes", space->free_bytes);
  write_limit(json, "quota_bytes", space->quota_bytes);
  json_number(json, "needed_inodes", space->needed_inodes);
  write_limit(json, "free_inodes", space->free_inodes);
  json_number(json, "longest_bytes", space->longest_bytes);
  write_limit(json, "longest_limit", space->longest_limit);
  json_number(json, "needed_files", space->needed_files);
  json_number(json, "file_limit", space->file_limit);
  json_bool(json, "is_kept", session->options->keep);
  json_text(json, "replaced", found_names[session->folder.found]);
  json_close(json, '}');
}

static void write_preparation(struct json *json, const struct file_session *session) {
  const struct prepare_report *report = &session->prepared;
  json_open(json, "preparation", '{');
  json_number(json, "files", report->files);
  json_number(json, "directories", report->directories);
  json_number(json, "bytes", report->bytes);
  json_number(json, "elapsed_ns", report->elapsed_ns);
  json_text(json, "cache", prepare_cache_words[session->options->cache]);
  json_text(json, "dropped", report->dropped);
  json_close(json, '}');
}

static void write_settings(struct json *json, const struct options *options) {
  summary_pace(json, options->pace.kind, &options->speed);
  json_number(json, "repeats", options->repeats);
  json_number(json, "duration_limit_ns", options->duration_ns);
  json_number(json, "warm_up_ns", options->warm_up_ns);
}

static void write_counts(struct json *json, const struct file_session *session) {
  const struct thread_pool_report *report = &session->report;
  const struct file_stats *stats = report->stats;
  json_open(json, "counts", '{');
  json_number(json, "operations", stats->count);
  json_number(json, "failed", stats->failed);
  json_number(json, "unknown", report->unknown);
  json_number(json, "dropped", flow_writes_dropped(&session->flow));
  json_number(json, "steps", stats->step_count);
  json_number(json, "untimed", stats->untimed);
  json_number(json, "untimed_ns", stats->untimed_ns);
  json_number(json, "bytes", stats->bytes);
  json_number(json, "cycles", report->cycles);
  json_close(json, '}');
}

static void write_timing(struct json *json, const struct file_session *session) {
  const struct file_stats *stats = session->report.stats;
  double seconds = (double)session->report.elapsed_ns / 1e9;
  json_open(json, "timing", '{');
  json_number(json, "elapsed_ns", session->report.elapsed_ns);
  json_real(json, "operations_per_second", seconds > 0 ? (double)stats->count / seconds : 0.0);
  json_real(json, "steps_per_second", seconds > 0 ? (double)stats->step_count / seconds : 0.0);
  json_real(json, "bytes_per_second", seconds > 0 ? (double)stats->bytes / seconds : 0.0);
  json_number(json, "cpu_user_ns", session->host.user_ns);
  json_number(json, "cpu_system_ns", session->host.system_ns);
  json_close(json, '}');
}

static void write_class(struct json *json, const char *name, const struct file_stats_class *class) {
  if (class == NULL || class->done + class->failed == 0)
    return;
  json_open(json, NULL, '{');
  json_text(json, "name", name);
  json_number(json, "done", class->done);
  json_number(json, "failed", class->failed);
  json_number(json, "expected_errors", class->expected);
  json_number(json, "bytes", class->bytes);
  json_number(json, "short", class->short_count);
  summary_histogram(json, "latency", &class->latency);
  summary_steps(json, "histogram", &class->latency);
  json_close(json, '}');
}

static void write_classes(struct json *json, const struct file_session *session) {
  const struct file_stats *stats = session->report.stats;
  json_open(json, "operations", '[');
  for (unsigned i = 0; i < FILE_OPERATIONS; i++)
    write_class(json, file_operation_name((enum file_operation)i), stats->operations[i]);
  json_close(json, ']');
  json_open(json, "steps", '[');
  for (unsigned i = 0; i < session->plan.step_count; i++)
    write_class(json, session->plan.steps[i].label, stats->steps[i]);
  json_close(json, ']');
}

static void write_error(struct json *json, enum file_operation operation, unsigned number,
                        uint64_t count) {
  if (count == 0)
    return;
  json_open(json, NULL, '{');
  json_text(json, "operation", file_operation_name(operation));
  summary_error(json, number);
  json_number(json, "count", count);
  json_close(json, '}');
}

static void write_errors(struct json *json, const struct file_stats *stats) {
  json_open(json, "errors", '[');
  for (unsigned i = 0; i < FILE_OPERATIONS; i++)
    for (unsigned number = 0; number < FILE_STATS_ERRORS; number++)
      write_error(json, (enum file_operation)i, number, stats->errors[i][number]);
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

static const char *outcome_name(const struct file_session *session, int error) {
  if (error == 0 && session->options->is_dry_run)
    return "dry_run";
  if (error == -EINTR)
    return "interrupted";
  if (error != 0 || session->report.end == RUN_END_RESULTS)
    return "failed";
  if (session->report.end == RUN_END_SIGNAL)
    return "interrupted";
  if (session->report.end == RUN_END_FILES)
    return "out_of_files";
  return session->report.end == RUN_END_FULL ? "full" : "finished";
}

static void write_all(struct json *json, const void *context) {
  const struct file_session *session = context;
  write_plan(json, &session->plan);
  write_directory(json, session);
  preflight_note_write(json, session->notes);
  if (!session->options->is_dry_run)
    write_preparation(json, session);
  write_settings(json, session->options);
  if (session->report.stats != NULL) {
    write_counts(json, session);
    write_timing(json, session);
    summary_histogram(json, "issue_error", &session->report.stats->issue_error);
    write_classes(json, session);
    write_errors(json, session->report.stats);
    write_timeline(json, &session->timeline);
  }
  json_number(json, "peak_memory_bytes", summary_peak_memory_bytes());
}

int file_summary_write(const struct file_session *session, int error) {
  struct summary_head head = {.outcome = outcome_name(session, error),
                              .ended_by = end_names[session->report.end],
                              .error = error};
  return summary_write(session->options->summary_path, &head, write_all, session);
}
