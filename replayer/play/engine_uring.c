#include <errno.h>
#include <linux/major.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "play/blocking.h"
#include "play/clock.h"
#include "play/engine.h"
#include "play/stop.h"
#include "play/uring_port.h"

#define PIECE 2U                       /* submissions that a slow device gets at once */
#define SLOW_NS 50000U                 /* it is slow when a sleep for its completions was longer */
#define DISCARD_THREADS 4U             /* where the kernel has no command for it */
#define RETRIES_MAX 1000U              /* of a request that the kernel refuses for the moment ... */
#define RETRY_END_NS 1000000000U       /* ... and for how long */
#define RETRY_FIRST_NS 1000U           /* before the first of them; each waits twice as long ... */
#define RETRY_DOUBLINGS 10U            /* ... up to about a millisecond */
#define FLUSH_PART (UINT64_C(1) << 32) /* in user_data: the flush before the data */

/* A request in flight and how far it is. */
struct task {
  struct request request;
  uint64_t done_bytes; /* transferred so far */
  int32_t error;
  bool is_flushing;      /* the flush before the data is not done */
  uint32_t retries;      /* since it last went on */
  uint64_t first_try_ns; /* clock value of the first of them */
  uint64_t due_ns;       /* clock value of the next one */
};

struct engine {
  struct uring_port main;  /* its ring is polled if that was asked for */
  struct uring_port aside; /* for what cannot be polled; not open when nothing is */
  struct engine *discards; /* threads that discard on devices; NULL where the ring can */
  uint32_t discarding;     /* requests in flight there */
  struct engine_config config;
  struct task *tasks; /* one a slot */
  uint32_t *parked;   /* slots of those that are tried again later */
  uint32_t parked_count;
  uint64_t resubmitted;
  uint64_t retried;
  uint64_t aside_count; /* entries of the ring aside */
  bool has_discard;     /* by a command of the ring */
  bool is_pipelined;    /* a slow device gets requests in pieces */
  bool is_slow;         /* the last sleep for completions was long */
  uint32_t late_ns;     /* of what is taken now: the wake-up that it needed */
};

static bool has_aside(const struct engine *engine) { return engine->aside.ring.fd >= 0; }

/* Where the data of a request goes. Only reads and writes that need no flush can be polled. */
static struct uring_port *port_of(struct engine *engine, const struct request *request) {
  if (!has_aside(engine))
    return &engine->main;
  bool is_durable = request->operation != BLOCK_READ && (request->flags & BLOCK_FUA) != 0;
  if (uring_port_transfers(&engine->config, request) && !is_durable)
    return &engine->main;
  engine->aside_count++;
  return &engine->aside;
}

/* Where flushes go. */
static struct uring_port *port_of_flush(struct engine *engine) {
  if (!has_aside(engine))
    return &engine->main;
  engine->aside_count++;
  return &engine->aside;
}

static int make_room(struct uring_port *port) {
  int rc = 0;
  while (uring_room(&port->ring) < 1 && rc == 0)
    rc = stop_is_forced() ? -EBUSY : uring_go(&port->ring);
  return rc;
}

/* Submits what is left of a task, or its first piece. A flush is not linked to its data by the
 * kernel: Linux (seen with 6.18) starts what is linked to a failed flush. */
static int go_on(struct engine *engine, const struct task *task) {
  bool is_flush = task->is_flushing;
  struct uring_port *port = is_flush ? port_of_flush(engine) : port_of(engine, &task->request);
  int rc = make_room(port);
  if (rc == 0 && is_flush)
    uring_port_fill_flush(port, &task->request)->user_data |= FLUSH_PART;
  else if (rc == 0)
    uring_port_fill(port, &task->request, task->done_bytes);
  /* A device that has done all it had begins with the first while the others are prepared. */
  bool is_piece = engine->is_slow && uring_waiting(&port->ring) >= PIECE;
  return rc == 0 && is_piece ? uring_go(&port->ring) : rc;
}

/* Whether the ring would punch a hole, which asks a device for zeroes and is no discard, or has no
 * operation for it, as for those on zones. */
static bool is_for_threads(const struct engine *engine, const struct request *request) {
  bool is_device = engine->config.targets[request->target].kind == TARGET_DEVICE;
  bool is_zone = block_operation_is_zone(request->operation);
  bool is_discard = is_device && request->operation == BLOCK_DISCARD && !engine->has_discard;
  return engine->discards != NULL && (is_zone || is_discard);
}

static int uring_submit(struct engine *engine, const struct request *request) {
  if (is_for_threads(engine, request)) {
    engine->discarding++;
    engine->aside_count += has_aside(engine);
    return engine_threads()->submit(engine->discards, request);
  }
  struct task *task = &engine->tasks[request->slot];
  bool has_flush = request->operation == BLOCK_WRITE && (request->flags & BLOCK_PREFLUSH) != 0;
  *task = (struct task){.request = *request, .is_flushing = has_flush};
  blocking_place(&engine->config.targets[request->target], &task->request);
  return go_on(engine, task);
}

/* Lets a task that the kernel refused for the moment wait for its next try. Returns whether it has
 * one left. */
static bool park(struct engine *engine, struct task *task, uint64_t now_ns) {
  if (task->retries == 0)
    task->first_try_ns = now_ns;
  if (task->retries == RETRIES_MAX || now_ns - task->first_try_ns > RETRY_END_NS)
    return false;
  uint32_t doublings = task->retries < RETRY_DOUBLINGS ? task->retries : RETRY_DOUBLINGS;
  task->due_ns = now_ns + ((uint64_t)RETRY_FIRST_NS << doublings);
  task->retries++;
  engine->retried++;
  engine->parked[engine->parked_count++] = task->request.slot;
  return true;
}

/* Submits again what is due, and shortens a wait until the next one is. */
static int try_again(struct engine *engine, uint64_t *until_ns) {
  uint64_t now_ns = clock_now_ns();
  uint32_t left = 0;
  int rc = 0;
  for (uint32_t i = 0; i < engine->parked_count; i++) {
    const struct task *task = &engine->tasks[engine->parked[i]];
    bool is_due = task->due_ns <= now_ns && rc == 0;
    if (is_due)
      rc = go_on(engine, task);
    else
      engine->parked[left++] = task->request.slot;
    if (!is_due && task->due_ns < *until_ns)
      *until_ns = task->due_ns;
  }
  engine->parked_count = left;
  return rc;
}

/* Takes one result into the task. Returns whether the data must be submitted again. */
static bool take_result(const struct engine *engine, struct task *task, int32_t result) {
  bool is_transfer = uring_port_transfers(&engine->config, &task->request);
  task->retries = 0;
  if (result < 0)
    task->error = result;
  else if (is_transfer && result == 0)
    task->error = task->request.operation == BLOCK_READ ? -ENODATA : -ENOSPC;
  else if (is_transfer)
    task->done_bytes += (uint32_t)result;
  return is_transfer && task->error == 0 && task->done_bytes < task->request.length_bytes;
}

/* Takes the oldest completion of a ring. Returns 1 with its task when that is now finished, 0 or
 * -errno. */
static int take(struct engine *engine, struct uring *ring, uint64_t now_ns,
                struct task **finished) {
  const struct io_uring_cqe *cqe = uring_peek(ring);
  struct task *task = &engine->tasks[(uint32_t)cqe->user_data];
  bool is_flush = (cqe->user_data & FLUSH_PART) != 0;
  int32_t result = cqe->res;
  uring_seen(ring);
  *finished = task;
  if ((result == -EAGAIN || result == -EINTR) && park(engine, task, now_ns))
    return 0;
  task->is_flushing = is_flush && result < 0;
  if (is_flush && result < 0)
    task->error = result;
  else if (is_flush)
    return go_on(engine, task);
  else if (take_result(engine, task, result)) {
    engine->resubmitted++;
    return go_on(engine, task);
  }
  return 1;
}

/* Takes what is ready in a ring. Returns how many requests are finished, or -errno. */
static int take_ready(struct engine *engine, struct uring *ring, struct completion *out,
                      uint32_t capacity) {
  const struct io_uring_cqe *cqe = uring_peek(ring);
  uint64_t now = cqe != NULL ? clock_now_ns() : 0;
  uint32_t count = 0;
  for (; cqe != NULL && count < capacity; cqe = uring_peek(ring)) {
    struct task *task = NULL;
    int rc = take(engine, ring, now, &task);
    if (rc < 0)
      return rc;
    if (rc > 0)
      out[count++] = (struct completion){.complete_ns = now,
                                         .slot = task->request.slot,
                                         .error = task->error,
                                         .late_ns = engine->late_ns};
  }
  return (int)count;
}

static int take_discards(struct engine *engine, struct completion *out, uint32_t capacity) {
  if (engine->discarding == 0 || capacity == 0)
    return 0;
  int count = engine_threads()->reap(engine->discards, out, capacity, 0);
  engine->discarding -= count > 0 ? (uint32_t)count : 0;
  return count;
}

static int take_all(struct engine *engine, struct completion *out, uint32_t capacity) {
  int count = take_ready(engine, &engine->main.ring, out, capacity);
  int more = count;
  if (more >= 0 && has_aside(engine)) {
    more = take_ready(engine, &engine->aside.ring, out + count, capacity - (uint32_t)count);
    count += more;
  }
  if (more >= 0) {
    more = take_discards(engine, out + count, capacity - (uint32_t)count);
    count += more;
  }
  return more < 0 ? more : count;
}

/* Sleeps in a ring for some completions, never for more than can come. */
static int sleep_in(struct engine *engine, struct uring *ring, uint64_t until_ns) {
  uint32_t most = engine->config.wake_count;
  if (ring->in_flight < most)
    most = ring->in_flight;
  uint32_t wake_up_ns = engine->config.wake_up_ns;
  bool is_measured = engine->is_pipelined || wake_up_ns > 0;
  uint64_t began_ns = is_measured ? clock_now_ns() : 0;
  int rc = uring_wait(ring, until_ns, most > 0 ? most : 1);
  uint64_t took_ns = is_measured ? clock_now_ns() - began_ns : 0;
  engine->is_slow = engine->is_pipelined && took_ns > SLOW_NS;
  engine->late_ns = took_ns > wake_up_ns ? wake_up_ns : 0; /* shorter, it was no sleep */
  return rc;
}

static bool has_completions(const struct engine *engine) {
  return uring_peek(&engine->main.ring) != NULL ||
         (has_aside(engine) && uring_peek(&engine->aside.ring) != NULL);
}

/* Lets all go on, and looks for completions until there are some. */
static int look(struct engine *engine, struct completion *out, uint32_t capacity,
                uint64_t until_ns) {
  int count;
  do {
    int rc = uring_go(&engine->main.ring);
    if (rc == 0 && has_aside(engine))
      rc = uring_go(&engine->aside.ring);
    count = rc != 0 ? rc : take_all(engine, out, capacity);
  } while (count == 0 && until_ns != 0 && clock_now_ns() < until_ns);
  return count;
}

/* The ring whose completions end a sleep; NULL when others could come meanwhile. */
static struct uring *only_busy(struct engine *engine) {
  bool is_aside_idle = !has_aside(engine) || engine->aside.ring.in_flight == 0;
  if (engine->discarding > 0)
    return NULL;
  if (is_aside_idle)
    return uring_can_sleep(&engine->main.ring) ? &engine->main.ring : NULL;
  return engine->main.ring.in_flight == 0 ? &engine->aside.ring : NULL;
}

static int uring_reap(struct engine *engine, struct completion *out, uint32_t capacity,
                      uint64_t until_ns) {
  bool must_wait = until_ns != 0 && !has_completions(engine);
  engine->late_ns = 0;
  int again = engine->parked_count > 0 ? try_again(engine, &until_ns) : 0;
  if (again != 0)
    return again;
  struct uring *ring = must_wait ? only_busy(engine) : NULL;
  if (ring == NULL)
    return look(engine, out, capacity, must_wait ? until_ns : 0);
  int rc = sleep_in(engine, ring, until_ns);
  return rc != 0 ? rc : take_all(engine, out, capacity);
}

static void uring_engine_close(struct engine *engine) {
  if (engine == NULL)
    return;
  uring_port_close(&engine->main);
  uring_port_close(&engine->aside);
  engine_threads()->close(engine->discards);
  free(engine->tasks);
  free(engine->parked);
  free(engine);
}

static int open_ports(struct engine *engine) {
  const struct uring_modes plain = {.is_polled = false};
  const struct uring_modes *modes = &engine->config.uring;
  int rc = uring_port_open(&engine->main, &engine->config, modes);
  if (rc == 0 && modes->is_polled)
    rc = uring_port_open(&engine->aside, &engine->config, &plain);
  return rc;
}

/* Before Linux 6.12 only a call that blocks discards on a device; it does what is done to zones on
 * any. */
static int open_discards(struct engine *engine) {
  struct engine_config config = engine->config;
  config.threads = DISCARD_THREADS;
  const struct uring_port *port = has_aside(engine) ? &engine->aside : &engine->main;
  engine->has_discard = port->has_discard;
  for (uint32_t i = 0; i < config.target_count; i++) {
    const struct target *target = &config.targets[i];
    bool discards = target->can_discard && !engine->has_discard;
    if (target->kind == TARGET_DEVICE && target->may_write && (discards || target->zones != NULL))
      return engine_threads()->open(&engine->discards, &config);
  }
  return 0;
}

/* Whether a slow device gets pieces: as fast as possible, and unless it is a loop device, whose
 * threads need the processors that the calls take. */
static bool may_pipeline(const struct engine_config *config) {
  bool is_looped = false;
  for (uint32_t i = 0; i < config->target_count; i++)
    is_looped = is_looped || major(config->targets[i].device) == LOOP_MAJOR;
  return config->wake_count > 1 && !is_looped;
}

/* The descriptors are -1 before anything can fail, so that closing knows what was opened. */
static int uring_engine_open(struct engine **out, const struct engine_config *config) {
  struct engine *engine = calloc(1, sizeof *engine);
  if (engine == NULL)
    return -ENOMEM;
  engine->config = *config;
  engine->is_pipelined = may_pipeline(config);
  engine->main.ring.fd = -1;
  engine->aside.ring.fd = -1;
  engine->tasks = calloc(config->depth, sizeof *engine->tasks);
  engine->parked = calloc(config->depth, sizeof *engine->parked);
  bool is_short = engine->tasks == NULL || engine->parked == NULL;
  int rc = is_short ? -ENOMEM : open_ports(engine);
  if (rc == 0)
    rc = open_discards(engine);
  if (rc != 0) {
    uring_engine_close(engine);
    return rc;
  }
  *out = engine;
  return 0;
}

/* A kernel without a feature is only slower, so the features that were used are reported. */
static void uring_describe(const struct engine *engine, struct engine_report *report) {
  uint32_t flags = engine->main.ring.setup_flags;
  const struct uring_port *main = &engine->main;
  struct engine_feature features[] = {
      {"defer_taskrun", (flags & IORING_SETUP_DEFER_TASKRUN) != 0},
      {"coop_taskrun", (flags & IORING_SETUP_COOP_TASKRUN) != 0},
      {"sqpoll", (flags & IORING_SETUP_SQPOLL) != 0},
      {"iopoll", (flags & IORING_SETUP_IOPOLL) != 0},
      {"registered_ring", main->ring.enter_flags != 0},
      {"registered_files", main->has_files},
      {"registered_buffers", main->has_buffers},
      {"discard_command", main->has_discard || engine->aside.has_discard},
      {"discard_threads", engine->discards != NULL},
  };
  report->feature_count = sizeof features / sizeof *features;
  memcpy(report->features, features, sizeof features);
  report->resubmitted = engine->resubmitted;
  report->retried = engine->retried + engine->main.ring.refused + engine->aside.ring.refused;
  report->unpolled = engine->aside_count;
  report->wakes = engine->main.ring.wakes;
}

const struct engine_ops *engine_uring(void) {
  static const struct engine_ops ops = {
      .name = "io_uring",
      .open = uring_engine_open,
      .submit = uring_submit,
      .reap = uring_reap,
      .describe = uring_describe,
      .close = uring_engine_close,
  };
  return &ops;
}
