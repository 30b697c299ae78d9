#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "play/blocking.h"
#include "play/clock.h"
#include "play/engine.h"
#include "play/mpmc_queue.h"
#include "play/priority.h"
#include "play/stop.h"

#define SECOND_NS 1000000000U

/* A request and what became of it. The rings pass its slot number from thread to thread, and their
 * acquire and release order the accesses. */
struct task {
  struct request request;
  uint64_t complete_ns; /* set by the worker */
  int32_t error;        /* set by the worker */
  uint32_t late_ns;     /* set by the worker: its own waking up */
};

struct worker {
  pthread_t thread;
  struct engine *engine;
  unsigned char *sink; /* where its reads go */
  uint16_t priority;   /* that it has; changed by the thread alone */
};

struct engine {
  struct engine_config config;
  struct ring *waiting;   /* submitting thread to workers */
  struct ring *finished;  /* workers to submitting thread */
  sem_t work;             /* tasks in `waiting`, and one more a worker at the end */
  sem_t done;             /* tasks in `finished` */
  uint32_t started;       /* workers that run */
  struct worker *workers; /* config.threads of them */
  struct task *tasks;     /* one a slot */
};

static void wait_for(sem_t *semaphore) {
  while (sem_wait(semaphore) != 0) {
    /* EINTR only */
  }
}

/* A priority is the thread's and not the call's; it was found to be granted before. */
static void take_priority(struct worker *worker, uint16_t priority) {
  if (worker->priority != priority && priority_take(priority) == 0)
    worker->priority = priority;
}

/* The result is pushed before the semaphore is posted, so that whoever wakes finds one. */
static void *work(void *argument) {
  struct worker *worker = argument;
  struct engine *engine = worker->engine;
  for (;;) {
    uint32_t slot;
    wait_for(&engine->work);
    /* A post without a task is the order to end. */
    if (!mpmc_queue_pop(engine->waiting, &slot))
      return NULL;
    struct task *task = &engine->tasks[slot];
    const struct target *target = &engine->config.targets[task->request.target];
    take_priority(worker, target->priority);
    uint64_t began_ns = clock_now_ns();
    task->error =
        (int32_t)blocking_run(target, engine->config.buffers, worker->sink, &task->request);
    task->complete_ns = clock_now_ns();
    uint32_t wake_up_ns = engine->config.wake_up_ns;
    task->late_ns = task->complete_ns - began_ns > wake_up_ns ? wake_up_ns : 0;
    (void)mpmc_queue_push(engine->finished, slot); /* has space for every slot */
    (void)sem_post(&engine->done);                 /* overflows only beyond 2^31 */
  }
}

static void threads_close(struct engine *engine) {
  if (engine == NULL)
    return;
  for (uint32_t i = 0; i < engine->started; i++)
    (void)sem_post(&engine->work);
  for (uint32_t i = 0; i < engine->started; i++)
    (void)pthread_join(engine->workers[i].thread, NULL);
  for (uint32_t i = 0; engine->workers != NULL && i < engine->config.threads; i++)
    buffers_free_sink(engine->config.buffers, engine->workers[i].sink);
  mpmc_queue_free(engine->waiting);
  mpmc_queue_free(engine->finished);
  free(engine->workers);
  free(engine->tasks);
  (void)sem_destroy(&engine->work);
  (void)sem_destroy(&engine->done);
  free(engine);
}

static int allocate(struct engine *engine) {
  uint32_t depth = engine->config.depth;
  engine->waiting = mpmc_queue_new(depth);
  engine->finished = mpmc_queue_new(depth);
  engine->workers = calloc(engine->config.threads, sizeof *engine->workers);
  engine->tasks = calloc(depth, sizeof *engine->tasks);
  bool is_short = engine->waiting == NULL || engine->finished == NULL || engine->workers == NULL ||
                  engine->tasks == NULL;
  return is_short ? -ENOMEM : 0;
}

static int start_worker(struct engine *engine, struct worker *worker) {
  worker->engine = engine;
  worker->sink = buffers_new_sink(engine->config.buffers);
  if (worker->sink == NULL)
    return -ENOMEM;
  return stop_thread_create(&worker->thread, work, worker);
}

/* Every thread is started before the first request: a start takes longer than a request. */
static int threads_open(struct engine **out, const struct engine_config *config) {
  struct engine *engine = calloc(1, sizeof *engine);
  if (engine == NULL)
    return -ENOMEM;
  engine->config = *config;
  /* Private semaphores that start at 0 cannot fail. */
  (void)sem_init(&engine->work, 0, 0);
  (void)sem_init(&engine->done, 0, 0);
  int rc = allocate(engine);
  while (rc == 0 && engine->started < config->threads) {
    rc = start_worker(engine, &engine->workers[engine->started]);
    engine->started += rc == 0;
  }
  if (rc != 0) {
    threads_close(engine);
    return rc;
  }
  *out = engine;
  return 0;
}

static int threads_submit(struct engine *engine, const struct request *request) {
  struct task *task = &engine->tasks[request->slot];
  task->request = *request;
  blocking_place(&engine->config.targets[request->target], &task->request);
  /* There is a place for every slot; only a worker that was interrupted while it took the oldest
   * task can still hold the cell, for a moment. */
  while (!mpmc_queue_push(engine->waiting, request->slot))
    (void)sched_yield(); /* always succeeds */
  return sem_post(&engine->work) == 0 ? 0 : -errno;
}

/* Waits until a task is finished; false at `until_ns` or after a signal. */
static bool wait_done(struct engine *engine, uint64_t until_ns) {
  if (until_ns == 0)
    return sem_trywait(&engine->done) == 0;
  struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND_NS),
                           .tv_nsec = (long)(until_ns % SECOND_NS)};
  return sem_clockwait(&engine->done, CLOCK_MONOTONIC, &until) == 0;
}

/* It waits for the first result only; the others are taken as far as they are there. */
static int threads_reap(struct engine *engine, struct completion *out, uint32_t capacity,
                        uint64_t until_ns) {
  uint32_t count = 0;
  while (count < capacity && wait_done(engine, count == 0 ? until_ns : 0)) {
    uint32_t slot;
    if (!mpmc_queue_pop(engine->finished, &slot)) {
      /* An older push is not finished yet, though a younger one was announced: come back. */
      (void)sem_post(&engine->done);
      break;
    }
    const struct task *task = &engine->tasks[slot];
    out[count++] = (struct completion){.complete_ns = task->complete_ns,
                                       .slot = slot,
                                       .error = task->error,
                                       .late_ns = task->late_ns};
  }
  return (int)count;
}

static void threads_describe(const struct engine *engine, struct engine_report *report) {
  (void)engine; /* it has nothing to probe */
  report->feature_count = 0;
  report->resubmitted = 0;
}

const struct engine_ops *engine_threads(void) {
  static const struct engine_ops ops = {
      .name = "threads",
      .open = threads_open,
      .submit = threads_submit,
      .reap = threads_reap,
      .describe = threads_describe,
      .close = threads_close,
  };
  return &ops;
}
