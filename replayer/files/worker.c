#include "files/worker.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "files/medium.h"
#include "replay/clock.h"

#define NAP_MAX_NS 20000000U /* longest sleep without a look at the end of the run */
#define SPINS 256U
#define NAP_NS 20000L

/* Lets no results grow old while the thread waits. */
static void hand_over(struct worker *worker, uint64_t now_ns) {
  struct crew *crew = worker->crew;
  results_hand_over(crew->results, worker->block, now_ns - crew->start_ns);
}

static bool is_over(struct crew *crew, uint64_t now_ns) {
  if (now_ns >= crew->limit_ns)
    crew_stop(crew, CREW_TIME);
  return atomic_load_explicit(&crew->end, memory_order_relaxed) != CREW_GOES_ON;
}

/* Waits until the clock shows `due_ns`; false when the run is over before. */
static bool wait_until(struct worker *worker, uint64_t due_ns) {
  struct crew *crew = worker->crew;
  for (;;) {
    uint64_t now = clock_now_ns();
    if (now >= due_ns)
      return true;
    if (is_over(crew, now))
      return false;
    uint64_t wake = clock_wake_ns(now, due_ns, crew->spin_ns);
    if (wake <= now)
      continue;
    hand_over(worker, now);
    clock_before_sleep(wake - now);
    clock_sleep_until(wake < now + NAP_MAX_NS ? wake : now + NAP_MAX_NS);
  }
}

/* Waits for the record that comes before this one; false when the run is over before. */
static bool wait_after(struct worker *worker, const struct plan_record *record) {
  struct crew *crew = worker->crew;
  uint32_t number = plan_thread_of(crew->plan, record->after);
  const struct plan_thread *thread = &crew->plan->threads[number];
  uint64_t needed = worker->cycle * thread->count + (record->after - thread->first) + 1;
  for (unsigned tries = 0;; tries++) {
    /* Acquire: what the other operation did, such as opening the handle, is seen. */
    if (atomic_load_explicit(&crew->workers[number].ended, memory_order_acquire) >= needed)
      return true;
    uint64_t now = clock_now_ns();
    if (is_over(crew, now))
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
static uint64_t due(const struct worker *worker, const struct plan_record *record) {
  const struct crew *crew = worker->crew;
  const struct fraction *speed = &crew->settings->speed;
  if (crew->settings->pace == CREW_TRACE)
    return crew->start_ns +
           fraction_divide(worker->cycle * crew->plan->duration_ns + record->start_ns, speed);
  if (crew->settings->pace == CREW_CLOSED && record->think_ns > 0)
    return worker->last_end_ns + fraction_divide(record->think_ns, speed);
  return 0;
}

static void tell(struct worker *worker) {
  const struct tally *tally = worker->tally;
  atomic_store_explicit(&worker->operations, tally->count, memory_order_relaxed);
  atomic_store_explicit(&worker->bytes, tally->bytes, memory_order_relaxed);
  atomic_store_explicit(&worker->failed, tally->failed, memory_order_relaxed);
}

static bool is_full(int64_t result) { return result == -ENOSPC || result == -EDQUOT; }

/* Performs one record that is due and notes what became of it. */
static void perform(struct worker *worker, const struct plan_record *record, uint64_t due_ns) {
  struct crew *crew = worker->crew;
  operation_clear(crew->place, record);
  uint64_t start = clock_now_ns();
  int64_t result = operation_perform(crew->place, record, worker->sink);
  medium_wait(crew->plan, record, result);
  uint64_t end = clock_now_ns();
  struct tally_entry entry = {.record = record, .result = result, .latency_ns = end - start};
  bool is_warm = start >= crew->measure_ns;
  bool is_timed = (record->flags & PLAN_IS_UNTIMED) == 0 && is_warm;
  bool is_expected = tally_is_expected(&entry);
  worker->last_end_ns = end;
  if (is_timed) {
    tally_add(worker->tally, &entry);
    if (due_ns != 0)
      histogram_add(&worker->tally->issue_error, start - due_ns);
    tell(worker);
  } else if (is_warm) {
    tally_add_untimed(worker->tally, end - start);
  }
  struct results_record done = {.operation_id = record->operation_id,
                                .start_ns = start - crew->start_ns,
                                .end_ns = end - crew->start_ns,
                                .result = result,
                                .thread = worker->number,
                                .cycle = worker->cycle,
                                .operation = record->operation,
                                .step = record->step,
                                .is_timed = is_timed,
                                .is_expected = is_expected};
  results_add(crew->results, worker->block, &done);
  if (!is_expected && is_full(result))
    crew_stop(crew, CREW_FULL);
}

/* One pass over the thread's records; false when the run is over. */
static bool run_cycle(struct worker *worker) {
  struct crew *crew = worker->crew;
  const struct plan_thread *thread = &crew->plan->threads[worker->number];
  uint64_t cycles_before = worker->cycle * thread->count;
  for (uint64_t i = 0; i < thread->count; i++) {
    const struct plan_record *record = &crew->plan->records[thread->first + i];
    if (is_over(crew, worker->last_end_ns))
      return false;
    uint64_t due_ns = due(worker, record);
    if ((due_ns != 0 && !wait_until(worker, due_ns)) ||
        (record->after != PLAN_NONE && !wait_after(worker, record)))
      return false;
    perform(worker, record, due_ns);
    /* Release: who waits for this record sees what it did. */
    atomic_store_explicit(&worker->ended, cycles_before + i + 1, memory_order_release);
  }
  return true;
}

void *worker_run(void *argument) {
  struct worker *worker = argument;
  struct crew *crew = worker->crew;
  uint64_t repeats = crew->plan->threads[worker->number].count == 0 ? 1 : crew->settings->repeats;
  clock_exact_timers();
  worker->last_end_ns = crew->start_ns;
  if (wait_until(worker, crew->start_ns))
    while (run_cycle(worker)) {
      worker->cycle++;
      if (worker->cycle == repeats || worker->cycle == UINT32_MAX)
        break;
    }
  results_flush(crew->results, worker->block);
  if (results_error(crew->results) != 0)
    crew_stop(crew, CREW_RESULTS);
  (void)atomic_fetch_sub(&crew->running, 1);
  return NULL;
}

int worker_open(struct worker *worker, struct crew *crew, uint32_t number) {
  memset(worker, 0, sizeof *worker);
  worker->crew = crew;
  worker->number = number;
  worker->sink = buffers_new_sink(crew->place->buffers);
  worker->tally = tally_new(crew->plan, &crew->plan->threads[number]);
  worker->block = malloc(sizeof *worker->block);
  if (worker->sink == NULL || worker->tally == NULL || worker->block == NULL)
    return -ENOMEM;
  memset(worker->block, 0, sizeof *worker->block);
  memset(worker->sink, 0, crew->plan->max_transfer_bytes);
  return 0;
}

void worker_close(struct worker *worker) {
  if (worker->crew == NULL)
    return;
  if (worker->sink != NULL)
    buffers_free_sink(worker->crew->place->buffers, worker->sink);
  tally_free(worker->tally);
  free(worker->block);
}
