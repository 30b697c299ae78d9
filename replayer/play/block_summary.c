#include "play/block_summary.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "play/emulation.h"
#include "play/json.h"
#include "play/priority.h"
#include "play/summary.h"

static void write_disk(struct json *json, const struct device_spec *spec) {
  json_number(json, "seek_track_ns", spec->seek_track_ns);
  json_number(json, "seek_root_ns", spec->seek_root_ns);
  json_signed(json, "seek_linear_ns", spec->seek_linear_ns);
  json_number(json, "seek_unknown_ns", spec->seek_unknown_ns);
  json_number(json, "write_settle_ns", spec->write_settle_ns);
  json_number(json, "half_turn_ns", spec->half_turn_ns);
  json_number(json, "track_sectors", spec->track_sectors);
  json_number(json, "capacity_sectors", spec->capacity_sectors);
}

static void write_device(struct json *json, const struct device_spec *spec) {
  json_open(json, "device", '{');
  json_number(json, "read_setup_ns", spec->read_setup_ns);
  json_number(json, "write_setup_ns", spec->write_setup_ns);
  if (spec->sequential_setup_ns != UINT64_MAX)
    json_number(json, "sequential_setup_ns", spec->sequential_setup_ns);
  json_number(json, "read_bytes_s", spec->read_bytes_s);
  json_number(json, "write_bytes_s", spec->write_bytes_s);
  json_number(json, "flush_ns", spec->flush_ns);
  json_number(json, "empty_flush_ns", spec->empty_flush_ns);
  json_number(json, "fua_ns", spec->fua_ns);
  json_number(json, "lanes", spec->lanes);
  if (spec->half_turn_ns > 0)
    write_disk(json, spec);
  if (spec->read_setup.count > 0 || spec->write_setup.count > 0) {
    json_number(json, "read_setup_quantiles", spec->read_setup.count);
    json_number(json, "write_setup_quantiles", spec->write_setup.count);
  }
  if (spec->cells != NULL)
    json_number(json, "cells", latency_cells(spec->cells, spec->cells_length));
  if (spec->read_setup.count > 0 || spec->write_setup.count > 0 || spec->cells != NULL)
    json_number(json, "seed", spec->seed);
  json_close(json, '}');
}

static void write_counted(struct json *json, const struct disk_stat *disk) {
  static const char *const names[DISK_KINDS] = {"reads", "writes", "discards", "flushes"};
  if (!disk->is_known)
    return;
  json_open(json, "counted", '{');
  for (unsigned kind = 0; kind < DISK_KINDS; kind++) {
    json_open(json, names[kind], '{');
    json_number(json, "done", disk->done[kind]);
    json_number(json, "merged", disk->merged[kind]);
    json_number(json, "bytes", disk->sectors[kind] * SECTOR_BYTES);
    json_close(json, '}');
  }
  json_close(json, '}');
}

/* A target is written with what confirms it, so that a dry run shows what to type. */
static void summary_target(struct json *json, const struct block_session *session, uint32_t index) {
  const struct target *target = &session->targets[index];
  const struct block_target *planned = &session->plan.targets[index];
  json_open(json, NULL, '{');
  json_text(json, "label", target->label);
  json_text(json, "path", target->path);
  json_text(json, "kind", target_kind_name(target->kind));
  json_bool(json, "is_kept", target->kind != TARGET_MADE_FILE || session->options->keep);
  json_text(json, "confirm_with", target->token[0] == '\0' ? NULL : target->token);
  json_bool(json, "may_write", target->may_write);
  json_bool(json, "is_probed", target->is_probed);
  json_number(json, "unseen_processes", target->guard.unseen);
  char priority[PRIORITY_TEXT_BYTES];
  priority_name(target->priority, priority);
  json_text(json, "priority", priority);
  json_bool(json, "is_direct", target->is_direct);
  json_bool(json, "expands", target->expands);
  json_text(json, "direct_note", target->direct_note[0] == '\0' ? NULL : target->direct_note);
  json_number(json, "align_bytes", target->align_bytes);
  json_number(json, "needed_bytes", planned->needed_bytes);
  if (target->kind != TARGET_NONE)
    json_number(json, "size_bytes", target->size_bytes);
  json_bool(json, "can_discard", target->can_discard);
  json_bool(json, "can_zero", target->can_zero);
  zone_map_write(json, target->zones);
  json_number(json, "out_of_range", session->beyond[index]);
  preflight_note_write(json, session->preflight.notes[index]);
  if (session->options->device_count > 0)
    write_device(json, &session->devices[index]);
  write_counted(json, &session->disks[index]);
  json_open(json, "planned", '{');
  for (unsigned operation = 0; operation < BLOCK_OPERATIONS; operation++)
    if (operation < BLOCK_ZONE_APPEND || planned->counts[operation] > 0)
      json_number(json, block_operation_name((enum block_operation)operation),
                  planned->counts[operation]);
  json_number(json, "read_bytes", planned->bytes[BLOCK_READ]);
  json_number(json, "write_bytes",
              planned->bytes[BLOCK_WRITE] + planned->bytes[BLOCK_WRITE_ZEROES] +
                  planned->bytes[BLOCK_ZONE_APPEND]);
  json_number(json, "discard_bytes", planned->bytes[BLOCK_DISCARD]);
  json_close(json, '}');
  json_close(json, '}');
}

static void write_plan(struct json *json, const struct block_plan *plan) {
  char hash[2 * sizeof plan->trace_sha256 + 1];
  for (size_t i = 0; i < sizeof plan->trace_sha256; i++)
    (void)snprintf(hash + 2 * i, 3, "%02x", plan->trace_sha256[i]); /* always fits */
  json_open(json, "plan", '{');
  json_number(json, "requests", plan->record_count);
  json_number(json, "duration_ns", plan->duration_ns);
  json_text(json, "level", plan->level == 0 ? "queued" : "issued");
  json_text(json, "trace_sha256", hash);
  json_number(json, "max_transfer_bytes", plan->max_transfer_bytes);
  json_close(json, '}');
}

static void write_window(struct json *json, const struct block_session *session) {
  const struct feed_window *window = &session->window;
  json_open(json, "window", '{');
  json_number(json, "first", window->first);
  json_number(json, "end", window->end);
  if (session->stats != NULL)
    json_number(json, "next", window->first + session->stats->reached);
  json_number(json, "from_ns", window->from_ns);
  json_number(json, "idle_gaps_cut", session->cuts.gaps);
  json_number(json, "idle_cut_ns", session->cuts.cut_ns);
  json_close(json, '}');
}

static void write_engine(struct json *json, const struct block_session *session) {
  const struct engine_report *report = &session->report;
  json_open(json, "engine", '{');
  json_text(json, "asked", session->options->engine);
  json_text(json, "used", session->ops == NULL ? NULL : session->ops->name);
  json_text(json, "fallback", session->fallback);
  json_open(json, "features", '{');
  for (uint32_t i = 0; i < report->feature_count; i++)
    json_bool(json, report->features[i].name, report->features[i].is_used);
  json_close(json, '}');
  json_number(json, "resubmitted", report->resubmitted);
  json_number(json, "retried", report->retried);
  json_number(json, "unpolled", report->unpolled);
  json_number(json, "sqpoll_wakes", report->wakes);
  json_text(json, "backing", report->backing);
  json_number(json, "overruns", report->overruns);
  json_close(json, '}');
}

/* What was released is what the run saw of all operations on a target. */
static void write_emulation(struct json *json, const struct block_session *session) {
  const struct emulation *emulation = session->report.emulation;
  uint32_t count = session->plan.target_count;
  if (emulation == NULL)
    return;
  json_open(json, "emulation", '{');
  emulation_write_budget(json, emulation, count);
  json_open(json, "devices", '[');
  for (uint32_t i = 0; i < count; i++) {
    const struct block_stats_class *classes = &session->stats->classes[i * BLOCK_OPERATIONS];
    struct histogram released = {0};
    for (unsigned operation = 0; operation < BLOCK_OPERATIONS; operation++)
      histogram_merge(&released, &classes[operation].service);
    json_open(json, NULL, '{');
    json_text(json, "target", session->plan.targets[i].label);
    summary_histogram(json, "released", &released);
    emulation_write(json, &emulation[i]);
    json_close(json, '}');
  }
  json_close(json, ']');
  json_close(json, '}');
}

/* The source of the clock shows a reader whether its readings cost a system call. */
static void write_clock(struct json *json, const struct block_session *session) {
  const struct clock_calibration *calibration = &session->calibration;
  char source[64] = "";
  FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
  if (file != NULL) {
    if (fgets(source, sizeof source, file) != NULL)
      source[strcspn(source, "\n")] = '\0';
    (void)fclose(file); /* only read */
  }
  json_open(json, "clock", '{');
  json_text(json, "name", "CLOCK_MONOTONIC");
  json_text(json, "source", source[0] == '\0' ? NULL : source);
  json_number(json, "read_ns", calibration->read_ns);
  json_number(json, "wake_p50_ns", calibration->wake_p50_ns);
  json_number(json, "wake_p99_ns", calibration->wake_p99_ns);
  json_number(json, "wake_max_ns", calibration->wake_max_ns);
  json_number(json, "spin_lead_ns", calibration->spin_lead_ns);
  json_number(json, "wake_up_ns", calibration->wake_up_ns);
  json_number(json, "start_ns", session->stats->start_ns);
  json_number(json, "lead_ns", session->options->pace.lead_ns);
  if (session->options->follows_lead) {
    const struct lead_range *range = &session->stats->lead_range;
    json_open(json, "lead_followed", '{');
    json_number(json, "requests", range->requests);
    json_number(json, "least_ns", range->least_ns);
    json_number(json, "most_ns", range->most_ns);
    json_close(json, '}');
  }
  json_close(json, '}');
}

/* What was not reached is the rest, so that the counts add up to the requests that were planned. */
static void write_counts(struct json *json, const struct block_session *session) {
  const struct block_stats *stats = session->stats;
  uint64_t handled = stats->submitted + stats->done_before;
  for (unsigned status = COMPLETION_SKIPPED_READ_ONLY; status <= COMPLETION_SKIPPED_OVERLAP;
       status++)
    handled += stats->statuses[status];
  json_open(json, "counts", '{');
  json_number(json, "planned", session->window.end - session->window.first);
  json_number(json, "submitted", stats->submitted);
  for (unsigned status = 0; status < COMPLETION_STATUSES; status++)
    json_number(json, completions_status_name((enum completions_status)status),
                stats->statuses[status]);
  json_number(json, "done_before", stats->done_before);
  json_number(json, "not_reached", session->window.end - session->window.first - handled);
  json_number(json, "moved", session->places.moved);
  json_number(json, "clipped", session->places.clipped);
  json_number(json, "expanded", session->places.expanded);
  json_number(json, "overlaps", stats->overlaps);
  json_close(json, '}');
}

static uint64_t done_bytes(const struct block_stats *stats) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < stats->target_count * BLOCK_OPERATIONS; i++)
    bytes += stats->classes[i].bytes;
  return bytes;
}

static void write_timing(struct json *json, const struct block_stats *stats) {
  uint64_t intended = stats->last_intended_ns - stats->first_intended_ns;
  uint64_t actual = stats->last_submit_ns - stats->first_submit_ns;
  uint64_t elapsed = stats->completed > 0 ? stats->last_complete_ns - stats->first_submit_ns : 0;
  double seconds = (double)elapsed / 1e9;
  json_open(json, "timing", '{');
  json_number(json, "intended_duration_ns", intended);
  json_number(json, "actual_duration_ns", actual);
  if (stats->is_timed) {
    json_signed(json, "duration_error_ns", (int64_t)(actual - intended));
    json_real(json, "drift_ns", drift_over(&stats->drift, intended));
  }
  json_number(json, "elapsed_ns", elapsed);
  json_real(json, "requests_per_second", elapsed > 0 ? (double)stats->completed / seconds : 0.0);
  json_real(json, "bytes_per_second", elapsed > 0 ? (double)done_bytes(stats) / seconds : 0.0);
  json_close(json, '}');
}

static double ratio(uint64_t part, uint64_t whole) {
  return whole > 0 ? (double)part / (double)whole : 0.0;
}

/* Without times in the plan there is nothing that the gaps could be compared with. */
static void write_fidelity(struct json *json, const struct block_session *session) {
  const struct block_stats *stats = session->stats;
  const struct fidelity_host *host = &session->host;
  struct fidelity_distance distance = fidelity_distance(&stats->fidelity);
  uint64_t intended = stats->last_intended_ns - stats->first_intended_ns;
  uint64_t actual = stats->last_submit_ns - stats->first_submit_ns;
  json_open(json, "fidelity", '{');
  if (stats->is_timed) {
    json_fine(json, "duration_ratio", intended > 0 ? ratio(actual, intended) : 1.0);
    json_fine(json, "gap_ks_ratio", distance.ks_ratio);
    json_real(json, "gap_wasserstein_ns", distance.wasserstein_ns);
    summary_histogram(json, "machine_issue_error", &session->machine_error);
  }
  json_fine(json, "steal_ratio", ratio(host->steal_ticks, host->all_ticks));
  json_number(json, "cpu_user_ns", host->user_ns);
  json_number(json, "cpu_system_ns", host->system_ns);
  json_number(json, "preemptions", host->preemptions);
  json_number(json, "punt_workers", session->punt_workers);
  json_close(json, '}');
}

static void write_late(struct json *json, const struct block_session *session) {
  const struct block_stats *stats = session->stats;
  json_open(json, "late", '{');
  json_text(json, "policy", pace_late_words[session->options->pace.late]);
  json_number(json, "limit_ns", session->options->pace.late_limit_ns);
  json_number(json, "slipped_ns", session->slipped_ns);
  json_number(json, "threshold_ns", BLOCK_STATS_LATE_NS);
  json_number(json, "count",
              stats->late[LATE_IN_FLIGHT] + stats->late[LATE_UNDERRUN] + stats->late[LATE_OTHER]);
  json_number(json, "in_flight_full", stats->late[LATE_IN_FLIGHT]);
  json_number(json, "plan_underrun", stats->late[LATE_UNDERRUN]);
  json_number(json, "other", stats->late[LATE_OTHER]);
  json_close(json, '}');
}

/* A class that had no request would only hide those that had some. */
static void write_class(struct json *json, const struct block_stats_class *class, const char *label,
                        enum block_operation operation) {
  uint64_t total = 0;
  for (unsigned status = 0; status < COMPLETION_STATUSES; status++)
    total += class->statuses[status];
  if (total == 0)
    return;
  json_open(json, NULL, '{');
  json_text(json, "target", label);
  json_text(json, "operation", block_operation_name(operation));
  for (unsigned status = 0; status < COMPLETION_STATUSES; status++)
    json_number(json, completions_status_name((enum completions_status)status),
                class->statuses[status]);
  json_number(json, "bytes", class->bytes);
  summary_histogram(json, "service", &class->service);
  summary_histogram(json, "response", &class->response);
  summary_steps(json, "service_histogram", &class->service);
  summary_steps(json, "response_histogram", &class->response);
  json_close(json, '}');
}

static void write_classes(struct json *json, const struct block_session *session) {
  json_open(json, "operations", '[');
  for (uint32_t target = 0; target < session->plan.target_count; target++)
    for (unsigned operation = 0; operation < BLOCK_OPERATIONS; operation++)
      write_class(json, &session->stats->classes[target * BLOCK_OPERATIONS + operation],
                  session->plan.targets[target].label, (enum block_operation)operation);
  json_close(json, ']');
}

static void write_errors(struct json *json, const struct block_stats *stats) {
  json_open(json, "errors", '[');
  for (uint32_t number = 0; number < BLOCK_STATS_ERRORS; number++) {
    if (stats->errors[number] == 0)
      continue;
    json_open(json, NULL, '{');
    summary_error(json, number);
    json_number(json, "count", stats->errors[number]);
    json_close(json, '}');
  }
  json_close(json, ']');
}

static void write_run(struct json *json, const struct block_session *session) {
  const struct block_stats *stats = session->stats;
  write_engine(json, session);
  write_emulation(json, session);
  write_clock(json, session);
  write_counts(json, session);
  write_timing(json, stats);
  summary_histogram(json, "issue_error", &stats->issue_error);
  write_late(json, session);
  write_fidelity(json, session);
  json_number(json, "in_flight_max", stats->in_flight_max);
  json_number(json, "plan_underruns", stats->underruns);
  json_number(json, "log_stalls", session->log_stalls);
  json_number(json, "peak_memory_bytes", summary_peak_memory_bytes());
  write_classes(json, session);
  write_errors(json, stats);
}

static const char *outcome_name(const struct block_session *session, int error) {
  if (session->options->is_dry_run)
    return "dry_run";
  if (error != 0)
    return "failed";
  switch (session->outcome) {
  case BLOCK_RUN_FINISHED:
    return "finished";
  case BLOCK_RUN_INTERRUPTED:
    return "interrupted";
  case BLOCK_RUN_FAILED:
    break;
  }
  return "failed";
}

static void write_all(struct json *json, const void *context) {
  const struct block_session *session = context;
  const struct options *options = session->options;
  write_plan(json, &session->plan);
  write_window(json, session);
  summary_pace(json, options->pace.kind, &options->speed);
  json_text(json, "out_of_range", fit_words[options->out_of_range]);
  json_text(json, "overlaps", overlap_words[options->overlaps]);
  json_number(json, "depth", options->depth);
  json_number(json, "threads", options->threads);
  json_number(json, "submitters", options->submitters);
  if (session->stats != NULL)
    write_run(json, session);
  preflight_note_write(json, session->preflight.notes[PREFLIGHT_OF_RUN]);
  json_open(json, "targets", '[');
  for (uint32_t i = 0; i < session->target_count; i++)
    summary_target(json, session, i);
  json_close(json, ']');
}

int block_summary_write(const struct block_session *session, int error) {
  struct summary_head head = {.outcome = outcome_name(session, error), .error = error};
  return summary_write(session->options->summary_path, &head, write_all, session);
}
