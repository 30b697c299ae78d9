#include "play/block_player.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play/block_session.h"
#include "play/block_summary.h"
#include "play/block_targets.h"
#include "play/diag.h"
#include "play/preflight.h"
#include "play/progress.h"
#include "play/stop.h"
#include "play/submitters.h"
#include "play/transfer.h"

/* A longer plan is checked block by block while it runs, so that the start takes no longer. */
#define CHECKED_MAX (UINT64_C(1) << 22)
#define WAKE_MAX 8U

/* Finds the records that run. */
static int choose_window(struct block_session *session) {
  const struct options *options = session->options;
  const struct block_plan *plan = &session->plan;
  struct feed_window *window = &session->window;
  *window = (struct feed_window){.first = options->first, .end = plan->record_count};
  window->from_ns = options->from_ns;
  int rc = 0;
  if (options->from_ns > 0)
    rc = block_plan_seek(plan, options->from_ns, &window->first);
  else if (options->first > 0 && options->first < plan->record_count)
    rc = block_plan_time_of(plan, options->first, &window->from_ns);
  if (rc == 0 && options->until_ns <= plan->duration_ns)
    rc = block_plan_seek(plan, options->until_ns, &window->end);
  if (rc != 0 || window->first < window->end || plan->record_count == 0)
    return rc;
  diag("%s has no requests in the part that was asked for: it has %" PRIu64 " in %" PRIu64 " ns",
       plan->path, plan->record_count, plan->duration_ns);
  return -EINVAL;
}

static bool is_ascending(const uint64_t *numbers, uint64_t count) {
  for (uint64_t i = 1; i < count; i++)
    if (numbers[i] <= numbers[i - 1])
      return false;
  return true;
}

/* Reads the numbers of records that an earlier run completed. */
static int read_done(struct block_session *session) {
  const char *path = session->options->done_path;
  if (path == NULL)
    return 0;
  struct stat status = {0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  int rc = fd < 0 || fstat(fd, &status) != 0 ? -errno : 0;
  size_t bytes = (size_t)status.st_size;
  if (rc == 0 && (!S_ISREG(status.st_mode) || bytes % sizeof *session->done != 0))
    rc = -EINVAL;
  if (rc == 0 && bytes > 0) {
    session->done = malloc(bytes);
    session->done_count = bytes / sizeof *session->done;
    rc = session->done == NULL ? -ENOMEM : transfer_read(fd, session->done, bytes, 0);
  }
  if (rc == 0 && !is_ascending(session->done, session->done_count))
    rc = -EINVAL;
  if (fd >= 0)
    (void)close(fd); /* only read */
  if (rc != 0)
    diag("cannot read numbers of records, in ascending order, from %s: %s", path, strerror(-rc));
  return rc;
}

/* The writes of a zone are in its order, which threads that own stripes do not keep. */
static int check_zones(const struct block_session *session) {
  for (uint32_t i = 0; i < session->target_count && session->options->submitters > 1; i++)
    if (session->targets[i].zones != NULL) {
      diag("--submitters needs targets without zones: %s has some", session->targets[i].path);
      return -EINVAL;
    }
  return 0;
}

/* Everything that can be checked before the first request. */
static int prepare(struct block_session *session) {
  bool is_short = session->plan.record_count <= CHECKED_MAX;
  int rc = is_short || session->options->is_dry_run ? block_plan_check_all(&session->plan) : 0;
  if (rc == 0)
    rc = choose_window(session);
  if (rc == 0)
    rc = read_done(session);
  if (rc == 0)
    rc = block_targets_open(session);
  if (rc == 0)
    rc = check_zones(session);
  return rc == 0 ? preflight_check(session) : rc;
}

/* Returns one submitting thread's share of what is there once. */
static uint32_t share_of(const struct options *options, uint32_t all) {
  uint32_t share = all / options->submitters;
  return share > 0 ? share : 1;
}

/* Most requests in flight of one submitting thread. */
static uint32_t depth_of(const struct options *options) {
  return share_of(options, options->depth);
}

/* As fast as possible a sleep that ends with several completions costs less for each, and keeps the
 * device as busy. By any other pace each must be seen when it comes. */
static uint32_t wake_count(const struct options *options) {
  bool is_fast = options->pace.kind == PACE_FAST && options->overlaps != OVERLAP_ORDER;
  uint32_t share = depth_of(options) / 4 < WAKE_MAX ? depth_of(options) / 4 : WAKE_MAX;
  return is_fast && share > 1 ? share : 1;
}

/* Opens one engine. Returns 0 or -errno. */
static int try_engine(struct block_session *session, const struct engine_ops *ops) {
  session->engine_config =
      (struct engine_config){.targets = session->targets,
                             .buffers = &session->buffers,
                             .target_count = session->target_count,
                             .devices = session->devices,
                             .spin_lead_ns = session->calibration.spin_lead_ns,
                             .wake_up_ns = (uint32_t)session->calibration.wake_up_ns,
                             .depth = depth_of(session->options),
                             .wake_count = wake_count(session->options),
                             .threads = share_of(session->options, session->options->threads),
                             .uring = session->options->uring};
  session->ops = ops;
  return ops->open(&session->engine, &session->engine_config);
}

/* Threads stand in where there is no io_uring, unless the user asked for a way of io_uring. */
static int open_engine(struct block_session *session) {
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
  } else if (strcmp(asked, "nvme") == 0) {
    rc = try_engine(session, engine_nvme());
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

static void read_disks(const struct block_session *session, struct disk_stat *disks) {
  for (uint32_t i = 0; i < session->target_count; i++)
    if (session->targets[i].kind == TARGET_DEVICE)
      disk_stat_read(session->targets[i].device, &disks[i]);
}

static void end_for(void *argument);

static int start_submitters(struct block_session *session, struct block_run_config *config) {
  const struct submitters_rules rules = {.count = session->options->submitters,
                                         .engine = &session->engine_config,
                                         .feed = session->feed,
                                         .log = session->log,
                                         .views = session->views,
                                         .report = &session->report};
  return rules.count == 1 ? 0 : submitters_start(&session->submitters, &rules, config);
}

/* The engine's own report comes before those of others are added. */
static void end_submitters(struct block_session *session, int *error) {
  session->ops->describe(session->engine, &session->report);
  if (session->submitters != NULL)
    session->outcome = submitters_end(session->submitters, session->outcome, error);
}

/* What the host and the disks count is read right around the run, so that it holds nothing else. */
static int run_with_feed(struct block_session *session) {
  const struct options *options = session->options;
  bool is_shown = options->progress_fd >= 0;
  struct block_run_config config = {.pace = options->pace,
                                    .overlaps = options->overlaps,
                                    .depth = depth_of(options),
                                    .spin_lead_ns = session->calibration.spin_lead_ns,
                                    .wake_up_ns = (uint32_t)session->calibration.wake_up_ns,
                                    .follows_lead = options->follows_lead,
                                    .follow_late_ns = options->follow_late_ns,
                                    .ops = session->ops,
                                    .engine = session->engine,
                                    .feed = feed_lane(session->feed, 0),
                                    .log = completions_lane(session->log, 0),
                                    .stats = session->stats,
                                    .view = &session->views[0],
                                    .end = end_for,
                                    .argument = session};
  /* Without memory for a progress line the run goes on without one. */
  struct progress *progress =
      is_shown ? progress_start(session->views, options->submitters,
                                session->window.end - session->window.first, options->progress_fd)
               : NULL;
  int error = start_submitters(session, &config);
  if (error != 0) {
    progress_stop(progress);
    return error;
  }
  struct fidelity_host before;
  struct disk_stat disks_before[BLOCK_PLAN_TARGETS_MAX] = {0};
  read_disks(session, disks_before);
  fidelity_read_host(&before);
  stop_enter(STOP_RUN);
  if (session->submitters != NULL)
    submitters_go(session->submitters, &config);
  session->outcome = block_run(&config, &session->slipped_ns, &error);
  end_submitters(session, &error);
  stop_enter(STOP_SAVE);
  fidelity_read_host(&session->host);
  fidelity_subtract_host(&session->host, &before);
  read_disks(session, session->disks);
  for (uint32_t i = 0; i < session->target_count; i++)
    disk_stat_subtract(&session->disks[i], &disks_before[i]);
  session->punt_workers = fidelity_punt_workers();
  progress_stop(progress);
  if (session->outcome == BLOCK_RUN_FAILED)
    diag("the run was given up: %s", strerror(-error));
  return session->outcome == BLOCK_RUN_FAILED ? error : 0;
}

/* Takes what engine and feed have counted. */
static void end_reading(struct block_session *session) {
  feed_stop(session->feed);
  session->places = feed_places(session->feed);
  session->cuts = feed_cuts(session->feed);
}

/* The targets are checked again as the last step: calibration and reading ahead take time. */
static int run_plan(struct block_session *session) {
  struct feed_target targets[BLOCK_PLAN_TARGETS_MAX];
  for (uint32_t i = 0; i < session->target_count; i++)
    targets[i] = (struct feed_target){.place = block_targets_fit(session, i),
                                      .may_write = session->targets[i].may_write,
                                      .can_discard = session->targets[i].can_discard,
                                      .has_zones = target_has_zones(&session->targets[i])};
  struct feed_rules rules = {.targets = targets,
                             .speed = session->options->speed,
                             .window = session->window,
                             .done = session->done,
                             .done_count = session->done_count,
                             .lanes = session->options->submitters,
                             .max_idle_ns = session->options->max_idle_ns,
                             .out_of_range = session->options->out_of_range};
  bool is_calibrated = session->options->pace.kind != PACE_FAST && !session->options->is_raw;
  struct feed_rules alone = rules;
  alone.lanes = 1;
  int rc = is_calibrated ? calibrate(&session->plan, &alone, session->calibration.spin_lead_ns,
                                     &session->machine_error)
                         : 0;
  if (rc == 0)
    rc = feed_open(&session->feed, &session->plan, &rules);
  if (rc != 0) {
    diag("cannot start to read the plan: %s", strerror(-rc));
    return rc;
  }
  rc = block_targets_check_again(session);
  if (rc == 0)
    rc = run_with_feed(session);
  end_reading(session);
  feed_close(session->feed);
  return rc;
}

/* Opens what only a real run needs, runs, and completes the log. */
static int run_for_real(struct block_session *session) {
  session->stats =
      block_stats_new(session->plan.target_count, session->window.end - session->window.first,
                      session->options->pace.kind != PACE_FAST);
  int rc = session->stats == NULL ? -ENOMEM : 0;
  if (rc == 0)
    rc = buffers_open(&session->buffers, block_targets_longest_transfer(session));
  if (rc != 0) {
    diag("no memory for the run: %s", strerror(-rc));
    return rc;
  }
  session->stats->lead_ns = session->options->pace.lead_ns;
  clock_calibrate(&session->calibration);
  if (must_know_wake_up(session->options))
    session->calibration.wake_up_ns = clock_wake_up_ns();
  rc = completions_open(&session->log, session->options->completions_path,
                        session->options->submitters);
  if (rc == 0)
    rc = open_engine(session);
  return rc == 0 ? run_plan(session) : rc;
}

/* What a request that hangs in the kernel could hold up is left to the end of the program. */
static void close_all(struct block_session *session) {
  if (session->engine != NULL && !stop_is_forced())
    session->ops->close(session->engine);
  if (!stop_is_forced())
    buffers_close(&session->buffers);
  submitters_close(session->submitters);
  completions_close(session->log);
  block_stats_free(session->stats);
  for (uint32_t i = 0; i < session->target_count; i++)
    target_close(&session->targets[i], session->options->keep);
  block_plan_close(&session->plan);
  free(session->done);
}

static int exit_code(const struct block_session *session, int rc) {
  if (rc != 0)
    return 1;
  bool is_partial = session->outcome == BLOCK_RUN_INTERRUPTED ||
                    (session->stats != NULL && session->stats->statuses[COMPLETION_FAILED] > 0);
  return is_partial ? 3 : 0;
}

/* Completes the completions file, then the summary. Returns the exit code. */
static int save(struct block_session *session, int rc) {
  /* A run that never began leaves no completions: completions_close throws the empty file away. */
  bool has_begun = session->stats != NULL && session->stats->submitted > 0;
  bool is_real = !session->options->is_dry_run;
  if (session->log != NULL && is_real && (rc == 0 || has_begun)) {
    int logged = completions_finish(session->log, &session->log_stalls);
    rc = rc != 0 ? rc : logged;
  }
  /* A run that was given up still says how far it came. */
  if (rc == 0 || has_begun) {
    int written = block_summary_write(session, rc);
    rc = rc != 0 ? rc : written;
  }
  return exit_code(session, rc);
}

/* The submitting thread hangs in a call: what there is is saved without it. */
static void end_for(void *argument) {
  struct block_session *session = argument;
  int error = 0;
  session->outcome = BLOCK_RUN_INTERRUPTED;
  end_submitters(session, &error);
  end_reading(session);
  stop_leave(save(session, 0));
}

static int play(struct block_session *session) {
  const struct options *options = session->options;
  int rc = prepare(session);
  bool may_start = rc == 0;
  if (may_start && !options->is_dry_run)
    rc = run_for_real(session);
  if (may_start && (rc == -EAGAIN || rc == -ENOMEM))
    preflight_explain(session);
  stop_enter(STOP_SAVE);
  int code = save(session, rc);
  stop_saved(code);
  bool is_forced = stop_is_forced();
  close_all(session);
  if (is_forced)
    stop_leave(code);
  return code;
}

int block_player_run(const struct options *options) {
  struct block_session *session = calloc(1, sizeof *session);
  if (session == NULL) {
    diag("no memory for the run: %s", strerror(errno));
    return 1;
  }
  session->options = options;
  int code = block_plan_open(&session->plan, options->plan_path) != 0 ? 1 : play(session);
  free(session);
  return code;
}
