#include "replay/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/ability.h"
#include "replay/diag.h"
#include "replay/priority.h"
#include "replay/progress.h"
#include "replay/range.h"
#include "replay/stop.h"
#include "replay/summary.h"

/* A longer plan is checked block by block while it runs, so that the start takes no longer. */
#define CHECKED_MAX (UINT64_C(1) << 22)
#define WAKE_MAX 8U

/* The path given for a label, or the one given for all others; NULL if there is neither. */
static const char *path_for(const struct options *options, const char *label) {
  const char *path = NULL;
  for (uint32_t i = 0; i < options->target_count; i++) {
    const struct options_target *target = &options->targets[i];
    if (target->label != NULL && strcmp(target->label, label) == 0)
      return target->path;
    if (target->label == NULL)
      path = target->path;
  }
  return path;
}

static bool plan_has(const struct plan *plan, const char *label) {
  for (uint32_t i = 0; i < plan->target_count; i++)
    if (strcmp(plan->targets[i].label, label) == 0)
      return true;
  return false;
}

/* A label that the plan lacks is a mistake: its requests would go somewhere else. */
static int check_labels(const struct session *session) {
  for (uint32_t i = 0; i < session->options->target_count; i++) {
    const char *label = session->options->targets[i].label;
    if (label != NULL && !plan_has(&session->plan, label)) {
      diag("the plan has no requests for a target '%s'", label);
      return -EINVAL;
    }
  }
  return 0;
}

/* Two targets on the same bytes would overwrite each other. */
static int check_twins(const struct session *session, const struct target *target) {
  for (uint32_t i = 0; i < session->target_count; i++) {
    const struct target *other = &session->targets[i];
    /* One may have been made a moment ago and exist for the other. A dry run makes none: there the
     * names must do. */
    bool is_same_object = other->fd >= 0 && target->fd >= 0 && other->device == target->device &&
                          other->inode == target->inode;
    bool is_same = is_same_object ||
                   (other->fd < 0 && target->fd < 0 && strcmp(other->path, target->path) == 0);
    if (is_same) {
      diag("targets %s and %s are the same %s; give each its own", other->label, target->label,
           target_kind_name(other->kind));
      return -EINVAL;
    }
  }
  return 0;
}

/* Gives each target of the plan the device that it is emulated on. */
static int choose_devices(struct session *session) {
  const struct options *options = session->options;
  for (uint32_t i = 0; i < options->device_count; i++)
    if (options->devices[i].label != NULL && !plan_has(&session->plan, options->devices[i].label)) {
      diag("the plan has no requests for a device '%s'", options->devices[i].label);
      return -EINVAL;
    }
  for (uint32_t target = 0; options->device_count > 0 && target < session->plan.target_count;
       target++) {
    const char *label = session->plan.targets[target].label;
    const struct options_device *chosen = NULL;
    for (uint32_t i = 0; i < options->device_count; i++) {
      const struct options_device *device = &options->devices[i];
      bool is_named = device->label != NULL && strcmp(device->label, label) == 0;
      if (is_named || (device->label == NULL && chosen == NULL))
        chosen = device;
    }
    if (chosen == NULL) {
      diag("the plan has requests for '%s', but no --emulate serves them", label);
      return -EINVAL;
    }
    session->devices[target] = chosen->spec;
  }
  return 0;
}

static int open_target(struct session *session, uint32_t index) {
  const struct options *options = session->options;
  const struct plan_target *plan_target = &session->plan.targets[index];
  struct target *target = &session->targets[index];
  if (options->target_count == 0) { /* the null engine, or a device without memory */
    target_open_none(target, plan_target);
    session->target_count++;
    return 0;
  }
  const char *path = path_for(options, plan_target->label);
  if (path == NULL) {
    diag("the plan has requests for '%s', but no --target takes them", plan_target->label);
    return -EINVAL;
  }
  struct target_rules rules = {.direct = options->direct,
                               .write_to = options->write_to.texts,
                               .write_to_count = options->write_to.count,
                               .overwrite = options->overwrite.texts,
                               .overwrite_count = options->overwrite.count,
                               .expands = options->expands,
                               .may_create = !options->is_dry_run};
  int rc = target_open(target, path, plan_target, &rules);
  if (rc != 0)
    return rc;
  rc = check_twins(session, target);
  session->target_count++;
  return rc;
}

/* Finds the records that run. */
static int choose_window(struct session *session) {
  const struct options *options = session->options;
  const struct plan *plan = &session->plan;
  struct feed_window *window = &session->window;
  *window = (struct feed_window){.first = options->first, .end = plan->record_count};
  window->from_ns = options->from_ns;
  int rc = 0;
  if (options->from_ns > 0)
    rc = plan_seek(plan, options->from_ns, &window->first);
  else if (options->first > 0 && options->first < plan->record_count)
    rc = plan_time_of(plan, options->first, &window->from_ns);
  if (rc == 0 && options->until_ns <= plan->duration_ns)
    rc = plan_seek(plan, options->until_ns, &window->end);
  if (rc != 0 || window->first < window->end || plan->record_count == 0)
    return rc;
  diag("%s has no requests in the part that was asked for: it has %" PRIu64 " in %" PRIu64 " ns",
       plan->path, plan->record_count, plan->duration_ns);
  return -EINVAL;
}

/* A DAX device has neither reads nor writes. */
static int check_kinds(const struct session *session, const char *engine) {
  for (uint32_t i = 0; i < session->target_count; i++)
    if (session->targets[i].kind == TARGET_DAX && strcmp(engine, "dax") != 0) {
      diag("target %s=%s is a DAX device: it needs --engine dax", session->targets[i].label,
           session->targets[i].path);
      return -EINVAL;
    }
  return 0;
}

/* What cannot be polled is refused before the kernel takes it and uses interrupts all the same. */
static int check_polling(const struct session *session) {
  for (uint32_t i = 0; session->options->uring.is_polled && i < session->target_count; i++) {
    const struct target *target = &session->targets[i];
    bool is_direct = target->is_direct || target->kind == TARGET_NONE;
    if (is_direct && (target->fd < 0 || ability_polls(target->device)))
      continue;
    const char *why = is_direct ? "its device has no queues for it (an NVMe drive gets them by "
                                  "nvme.poll_queues=N on the kernel's command line)"
                                : "it is buffered, and only O_DIRECT can be";
    diag("target %s=%s cannot be polled: %s; leave --iopoll out", target->label, target->path, why);
    return -EOPNOTSUPP;
  }
  return 0;
}

/* Everything that can be checked before the first request. */
static int prepare(struct session *session) {
  bool is_short = session->plan.record_count <= CHECKED_MAX;
  int rc = is_short || session->options->is_dry_run ? plan_check_all(&session->plan) : 0;
  if (rc == 0)
    rc = choose_window(session);
  if (rc == 0)
    rc = check_labels(session);
  if (rc == 0)
    rc = choose_devices(session);
  for (uint32_t i = 0; i < session->plan.target_count && rc == 0; i++)
    rc = open_target(session, i);
  if (rc == 0)
    rc = check_kinds(session, session->options->engine);
  if (rc == 0)
    rc = check_polling(session);
  const struct options_list *asked = &session->options->priority;
  if (rc == 0)
    rc = priority_assign(session->targets, session->target_count, asked->texts, asked->count);
  return rc == 0 ? range_check(session) : rc;
}

/* As fast as possible a sleep that ends with several completions costs less for each, and keeps the
 * device as busy. By any other pace each must be seen when it comes. */
static uint32_t wake_count(const struct options *options) {
  bool is_fast = options->pace.kind == PACE_FAST && options->overlaps != OVERLAP_ORDER;
  uint32_t share = options->depth / 4 < WAKE_MAX ? options->depth / 4 : WAKE_MAX;
  return is_fast && share > 1 ? share : 1;
}

/* Opens one engine. Returns 0 or -errno. */
static int try_engine(struct session *session, const struct engine_ops *ops) {
  struct engine_config config = {.targets = session->targets,
                                 .buffers = &session->buffers,
                                 .target_count = session->target_count,
                                 .devices = session->devices,
                                 .spin_lead_ns = session->calibration.spin_lead_ns,
                                 .wake_up_ns = (uint32_t)session->calibration.wake_up_ns,
                                 .depth = session->options->depth,
                                 .wake_count = wake_count(session->options),
                                 .threads = session->options->threads,
                                 .uring = session->options->uring};
  session->ops = ops;
  return ops->open(&session->engine, &config);
}

static int open_engine(struct session *session) {
  const char *asked = session->options->engine;
  const struct uring_modes *modes = &session->options->uring;
  bool has_modes = modes->is_submitted_for || modes->is_polled;
  int rc;
  if (strcmp(asked, "null") == 0) {
    rc = try_engine(session, engine_null());
  } else if (strcmp(asked, "emulated") == 0) {
    rc = try_engine(session, engine_emulated());
  } else if (strcmp(asked, "dax") == 0) {
    rc = try_engine(session, engine_dax());
  } else if (strcmp(asked, "threads") == 0) {
    rc = try_engine(session, engine_threads());
  } else {
    rc = try_engine(session, engine_uring());
    if (rc != 0 && !has_modes) {
      session->fallback = strerrordesc_np(-rc);
      diag("io_uring is not available (%s): the threads engine is used", session->fallback);
      rc = try_engine(session, engine_threads());
    }
  }
  if (rc != 0)
    diag("cannot start the %s engine%s%s: %s", session->ops->name,
         modes->is_submitted_for ? " with --sqpoll" : "", modes->is_polled ? " with --iopoll" : "",
         strerror(-rc));
  return rc;
}

/* Only a closed loop goes by when a completion was seen, and these engines know it exactly. */
static bool must_know_wake_up(const struct options *options) {
  return options->pace.kind == PACE_CLOSED && strcmp(options->engine, "null") != 0 &&
         strcmp(options->engine, "dax") != 0 && strcmp(options->engine, "emulated") != 0;
}

static int check_targets_again(const struct session *session) {
  int rc = 0;
  for (uint32_t i = 0; i < session->target_count && rc == 0; i++)
    rc = target_check_again(&session->targets[i]);
  return rc;
}

static void read_disks(const struct session *session, struct disk_stat *disks) {
  for (uint32_t i = 0; i < session->target_count; i++)
    if (session->targets[i].kind == TARGET_DEVICE)
      disk_stat_read(session->targets[i].device, &disks[i]);
}

static int run_with_feed(struct session *session, struct feed *feed) {
  const struct options *options = session->options;
  bool is_shown = !options->is_quiet && isatty(options->progress_fd) == 1;
  struct run_config config = {.pace = options->pace,
                              .overlaps = options->overlaps,
                              .depth = options->depth,
                              .spin_lead_ns = session->calibration.spin_lead_ns,
                              .wake_up_ns = (uint32_t)session->calibration.wake_up_ns,
                              .ops = session->ops,
                              .engine = session->engine,
                              .feed = feed,
                              .log = session->log,
                              .stats = session->stats,
                              .view = &session->view};
  /* Without memory for a progress line the run goes on without one. */
  struct progress *progress =
      is_shown ? progress_start(&session->view, session->window.end - session->window.first,
                                options->progress_fd)
               : NULL;
  int error;
  struct fidelity_host before;
  struct disk_stat disks_before[PLAN_TARGETS_MAX] = {0};
  read_disks(session, disks_before);
  fidelity_read_host(&before);
  session->outcome = run_execute(&config, &session->slipped_ns, &error);
  fidelity_read_host(&session->host);
  fidelity_subtract_host(&session->host, &before);
  read_disks(session, session->disks);
  for (uint32_t i = 0; i < session->target_count; i++)
    disk_stat_subtract(&session->disks[i], &disks_before[i]);
  session->punt_workers = fidelity_punt_workers();
  progress_stop(progress);
  if (session->outcome == RUN_FAILED)
    diag("the run was given up: %s", strerror(-error));
  return session->outcome == RUN_FAILED ? error : 0;
}

static int run_plan(struct session *session) {
  struct feed_target targets[PLAN_TARGETS_MAX];
  for (uint32_t i = 0; i < session->target_count; i++)
    targets[i] = (struct feed_target){.place = range_place(session, i),
                                      .may_write = session->targets[i].may_write,
                                      .can_discard = session->targets[i].can_discard};
  struct feed_rules rules = {.targets = targets,
                             .speed = session->options->speed,
                             .window = session->window,
                             .max_idle_ns = session->options->max_idle_ns,
                             .out_of_range = session->options->out_of_range};
  struct feed *feed;
  bool is_calibrated = session->options->pace.kind != PACE_FAST && !session->options->is_raw;
  int rc = is_calibrated ? calibrate(&session->plan, &rules, session->calibration.spin_lead_ns,
                                     &session->machine_error)
                         : 0;
  if (rc == 0)
    rc = feed_open(&feed, &session->plan, &rules);
  if (rc != 0) {
    diag("cannot start to read the plan: %s", strerror(-rc));
    return rc;
  }
  rc = check_targets_again(session);
  if (rc == 0)
    rc = run_with_feed(session, feed);
  session->ops->describe(session->engine, &session->report);
  feed_stop(feed);
  session->places = feed_places(feed);
  session->cuts = feed_cuts(feed);
  feed_close(feed);
  return rc;
}

/* Opens what only a real run needs, runs, and completes the log. */
static int run_for_real(struct session *session) {
  session->stats = stats_new(session->plan.target_count, session->options->pace.kind != PACE_FAST);
  int rc = session->stats == NULL ? -ENOMEM : 0;
  if (rc == 0)
    rc = buffers_open(&session->buffers, range_longest_transfer(session));
  if (rc != 0) {
    diag("no memory for the run: %s", strerror(-rc));
    return rc;
  }
  clock_calibrate(&session->calibration);
  if (must_know_wake_up(session->options))
    session->calibration.wake_up_ns = clock_wake_up_ns();
  rc = log_open(&session->log, session->options->completions_path);
  if (rc == 0)
    rc = open_engine(session);
  if (rc == 0)
    rc = run_plan(session);
  /* A run that never began leaves no completions: log_close throws the empty file away. */
  bool has_log = session->log != NULL && (rc == 0 || session->stats->submitted > 0);
  int logged = has_log ? log_finish(session->log, &session->log_stalls) : 0;
  return rc != 0 ? rc : logged;
}

static void close_all(struct session *session) {
  if (session->engine != NULL)
    session->ops->close(session->engine);
  log_close(session->log);
  stats_free(session->stats);
  buffers_close(&session->buffers);
  for (uint32_t i = 0; i < session->target_count; i++)
    target_close(&session->targets[i], session->options->keep);
  plan_close(&session->plan);
}

static int exit_code(const struct session *session, int rc) {
  if (rc != 0)
    return 1;
  bool is_partial = session->outcome == RUN_INTERRUPTED ||
                    (session->stats != NULL && session->stats->statuses[LOG_FAILED] > 0);
  return is_partial ? 3 : 0;
}

int session_run(struct session *session, const struct options *options) {
  memset(session, 0, sizeof *session);
  session->options = options;
  if (options_check_outputs(options) != 0 || plan_open(&session->plan, options->plan_path) != 0)
    return 1;
  int rc = prepare(session);
  if (rc == 0 && !options->is_dry_run)
    rc = run_for_real(session);
  /* A run that was given up still says how far it came. */
  bool has_begun = session->stats != NULL && session->stats->submitted > 0;
  if (rc == 0 || has_begun) {
    int written = summary_write(session, rc);
    rc = rc != 0 ? rc : written;
  }
  int code = exit_code(session, rc);
  close_all(session);
  return code;
}
