#include "play/worker.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "play/clock.h"
#include "play/flow.h"

#define NAP_MAX_NS 20000000U /* longest sleep without a look at the end of the run */
#define SPINS 256U
#define NAP_NS 20000L

void worker_end_run(struct file_run *run, enum run_end why) {
  int goes_on = RUN_END_NONE;
  (void)atomic_compare_exchange_strong(&run->end, &goes_on, (int)why); /* the first reason stays */
}

/* Lets no results grow old while the thread waits. */
static void hand_over(struct worker *worker, uint64_t now_ns) {
  struct file_run *run = worker->run;
  results_hand_over(run->results, worker->block, now_ns - run->start_ns);
}

static bool is_over(struct file_run *run, uint64_t now_ns) {
  if (now_ns >= run->limit_ns)
    worker_end_run(run, RUN_END_TIME);
  return atomic_load_explicit(&run->end, memory_order_relaxed) != RUN_END_NONE;
}

bool worker_is_over(struct worker *worker) { return is_over(worker->run, clock_now_ns()); }

bool worker_wait_until(struct worker *worker, uint64_t due_ns) {
  struct file_run *run = worker->run;
  for (;;) {
    uint64_t now = clock_now_ns();
    if (now >= due_ns)
      return true;
    if (is_over(run, now))
      return false;
    uint64_t wake = clock_wake_ns(now, due_ns, run->spin_ns);
    if (wake <= now)
      continue;
    hand_over(worker, now);
    clock_before_sleep(wake - now);
    clock_sleep_until(wake < now + NAP_MAX_NS ? wake : now + NAP_MAX_NS);
  }
}

/* Waits for the record that comes before this one; false when the run is over before. */
static bool wait_after(struct worker *worker, const struct file_record *record) {
  struct file_run *run = worker->run;
  uint32_t number = file_plan_thread_of(run->plan, record->after);
  const struct file_thread *thread = &run->plan->threads[number];
  uint64_t needed = worker->cycle * thread->count + (record->after - thread->first) + 1;
  for (unsigned tries = 0;; tries++) {
    /* Acquire: what the other operation did, such as opening the handle, is seen. */
    if (atomic_load_explicit(&run->workers[number].ended, memory_order_acquire) >= needed)
      return true;
    uint64_t now = clock_now_ns();
    if (is_over(run, now))
      return false;
    hand_over(worker, now);
    struct timespec nap = {.tv_nsec = NAP_NS};
    if (tries < SPINS)
      (void)sched_yield(); /* cannot fail on Linux */
    else
      (void)nanosleep(&nap, NULL); /* woken early is as good */
  }
}

/* When the record is due by the clock, 0: at once. */
static uint64_t due(const struct worker *worker, const struct file_record *record) {
  const struct file_run *run = worker->run;
  const struct fraction *speed = &run->settings->speed;
  if (run->settings->pace == PACE_TRACE)
    return run->start_ns +
           fraction_divide(worker->cycle * run->plan->duration_ns + record->start_ns, speed);
  if (run->settings->pace == PACE_CLOSED && record->think_ns > 0)
    return worker->last_end_ns + fraction_divide(record->think_ns, speed);
  return 0;
}

static void publish(struct worker *worker) {
  const struct file_stats *stats = worker->stats;
  atomic_store_explicit(&worker->operations, stats->count, memory_order_relaxed);
  atomic_store_explicit(&worker->bytes, stats->bytes, memory_order_relaxed);
  atomic_store_explicit(&worker->failed, stats->failed, memory_order_relaxed);
}

static bool is_full(int64_t result) { return result == -ENOSPC || result == -EDQUOT; }

/* Whether the buffers are as long as what it moves. */
static bool fits(const struct file_plan *plan, const struct file_record *record) {
  bool moves = record->operation == FILE_READ || record->operation == FILE_WRITE;
  return !moves || record->length <= plan->max_transfer_bytes;
}

/* Performs one record; it may hang, and the thread be left there. *start_ns is set to its start. */
static int64_t call(struct worker *worker, const struct file_record *record, uint64_t *start_ns) {
  const struct file_context *context = worker->run->context;
  int inside = WORKER_INSIDE;
  worker->record = record;
  atomic_store_explicit(&worker->begun_ns, worker->last_end_ns, memory_order_relaxed);
  atomic_store_explicit(&worker->place, WORKER_INSIDE, memory_order_release);
  file_operation_clear(context, record);
  *start_ns = clock_now_ns();
  atomic_store_explicit(&worker->begun_ns, *start_ns, memory_order_relaxed);
  int64_t result = fits(worker->run->plan, record)
                       ? file_operation_perform(context, record, worker->sink)
                       : -EMSGSIZE;
  if (!atomic_compare_exchange_strong(&worker->place, &inside, WORKER_OUTSIDE))
    for (;;)
      (void)pause(); /* the program is being ended without this thread */
  return result;
}

/* When a record was due, 0: at once, and when it was done, by the clock. */
struct span {
  uint64_t due_ns;
  uint64_t start_ns;
  uint64_t end_ns;
};

/* Notes what became of a record that was due. */
static void note(struct worker *worker, const struct file_record *record, int64_t result,
                 const struct span *span) {
  struct file_run *run = worker->run;
  uint64_t start = span->start_ns;
  uint64_t end = span->end_ns;
  struct file_outcome entry = {.record = record, .result = result, .latency_ns = end - start};
  bool is_warm = start >= run->measure_ns;
  bool is_timed = (record->flags & FILE_IS_UNTIMED) == 0 && is_warm;
  bool is_expected = file_stats_is_expected(&entry);
  worker->last_end_ns = end;
  if (is_timed) {
    file_stats_add(worker->stats, &entry);
    if (span->due_ns != 0)
      histogram_add(&worker->stats->issue_error, start - span->due_ns);
    publish(worker);
  } else if (is_warm) {
    file_stats_add_untimed(worker->stats, end - start);
  }
  struct results_record done = {.operation_id = record->operation_id,
                                .start_ns = start - run->start_ns,
                                .end_ns = end - run->start_ns,
                                .result = result,
                                .thread = worker->number,
                                .cycle = worker->cycle,
                                .operation = record->operation,
                                .step = record->step,
                                .is_timed = is_timed,
                                .is_expected = is_expected};
  results_add(run->results, worker->block, &done);
  if (!is_expected && is_full(result))
    worker_end_run(run, RUN_END_FULL);
}

static int64_t timed_call(struct worker *worker, const struct file_record *record,
                          struct span *span) {
  int64_t result = call(worker, record, &span->start_ns);
  memory_wait(&worker->run->wait, &worker->moved, record, result, span->start_ns);
  span->end_ns = clock_now_ns();
  return result;
}

void worker_perform_due(struct worker *worker, const struct file_record *record, uint64_t due_ns) {
  struct span span = {.due_ns = due_ns};
  note(worker, record, timed_call(worker, record, &span), &span);
}

int64_t worker_perform(struct worker *worker, struct file_record *record) {
  struct span span = {.due_ns = 0};
  int64_t result = timed_call(worker, record, &span);
  if (result <= 0)
    record->flags &= (uint16_t)~FILE_CONTINUES;
  note(worker, record, result, &span);
  return result;
}

/* One pass over the thread's records; false when the run is over. */
static bool run_cycle(struct worker *worker) {
  struct file_run *run = worker->run;
  const struct file_thread *thread = &run->plan->threads[worker->number];
  uint64_t cycles_before = worker->cycle * thread->count;
  for (uint64_t i = 0; i < thread->count; i++) {
    const struct file_record *record = &run->plan->records[thread->first + i];
    if (is_over(run, worker->last_end_ns))
      return false;
    uint64_t due_ns = due(worker, record);
    if ((due_ns != 0 && !worker_wait_until(worker, due_ns)) ||
        (record->after != FILE_NONE && !wait_after(worker, record)))
      return false;
    worker_perform_due(worker, record, due_ns);
    /* Release: who waits for this record sees what it did. */
    atomic_store_explicit(&worker->ended, cycles_before + i + 1, memory_order_release);
  }
  return true;
}

/* The records one by one, as often as asked. A thread without any has nothing to repeat. */
static void run_cycles(struct worker *worker) {
  const struct file_run *run = worker->run;
  uint64_t repeats = run->plan->threads[worker->number].count == 0 ? 1 : run->settings->repeats;
  while (run_cycle(worker)) {
    worker->cycle++;
    worker->is_done = worker->cycle == repeats || worker->cycle == UINT32_MAX;
    if (worker->is_done)
      break;
  }
}

void *worker_run(void *argument) {
  struct worker *worker = argument;
  struct file_run *run = worker->run;
  clock_exact_timers();
  worker->last_end_ns = run->start_ns;
  if (worker_wait_until(worker, run->start_ns)) {
    if (run->flow != NULL)
      flow_run(worker);
    else
      run_cycles(worker);
  }
  results_flush(run->results, worker->block);
  if (results_error(run->results) != 0)
    worker_end_run(run, RUN_END_RESULTS);
  (void)atomic_fetch_sub(&run->running, 1);
  return NULL;
}

int worker_open(struct worker *worker, struct file_run *run, uint32_t number) {
  memset(worker, 0, sizeof *worker);
  worker->run = run;
  worker->number = number;
  worker->sink = buffers_new_sink(run->context->buffers);
  worker->stats = file_stats_new(run->plan, &run->plan->threads[number]);
  worker->block = malloc(sizeof *worker->block);
  if (worker->sink == NULL || worker->stats == NULL || worker->block == NULL)
    return -ENOMEM;
  memset(worker->block, 0, sizeof *worker->block);
  memset(worker->sink, 0, run->plan->max_transfer_bytes);
  return 0;
}

bool worker_abandon(struct worker *worker) {
  int inside = WORKER_INSIDE;
  if (!atomic_compare_exchange_strong(&worker->place, &inside, WORKER_ABANDONED))
    return false;
  const struct file_run *run = worker->run;
  const struct file_record *record = worker->record;
  uint64_t start = atomic_load_explicit(&worker->begun_ns, memory_order_relaxed);
  bool is_timed = (record->flags & FILE_IS_UNTIMED) == 0 && start >= run->measure_ns;
  struct results_record unknown = {.operation_id = record->operation_id,
                                   .start_ns = start - run->start_ns,
                                   .end_ns = clock_now_ns() - run->start_ns,
                                   .result = -EINPROGRESS,
                                   .thread = worker->number,
                                   .cycle = worker->cycle,
                                   .operation = record->operation,
                                   .step = record->step,
                                   .is_timed = is_timed,
                                   .is_whole = RESULTS_UNKNOWN};
  results_add(run->results, worker->block, &unknown);
  results_flush(run->results, worker->block);
  return true;
}

void worker_close(struct worker *worker) {
  if (worker->run == NULL || worker->place == WORKER_ABANDONED)
    return;
  if (worker->sink != NULL)
    buffers_free_sink(worker->run->context->buffers, worker->sink);
  file_stats_free(worker->stats);
  free(worker->block);
}
