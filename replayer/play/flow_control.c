/* What a thread of a flow does beside working on files: waiting, limits and signs to others. */
#include <errno.h>
#include <stdlib.h>

#include "common/hash.h"
#include "play/clock.h"
#include "play/condition.h"
#include "play/flow_writes.h"

__extension__ typedef unsigned __int128 wide;

#define SECOND_NS 1000000000U
#define BACKLOG_S 5U /* of events that nobody took */
#define WAIT_NS 20000000U
#define DELAY_MAX_S (UINT64_C(1) << 33) /* 272 years: more waits for the end of the run */
#define MIB (UINT64_C(1) << 20)
#define GOLDEN 0x9e3779b97f4a7c15ULL /* of splitmix64 */

/* Two counts of a semaphore, as semblock has them, and how often it was woken. */
struct flow_gate {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t low;  /* posts that nobody took */
  uint64_t high; /* how many more may be posted */
  uint64_t wakes;
};

static bool has_gate(const struct flow_op *op) {
  return op->kind == FLOW_SEMAPHORE_WAIT || op->kind == FLOW_BLOCK;
}

static int open_gates(struct flow *flow) {
  uint64_t count = 0;
  for (uint64_t i = 0; i < flow->plan->record_count; i++)
    count += has_gate(&flow->plan->flow.ops[i]);
  flow->gates = calloc(count + 1, sizeof *flow->gates);
  if (flow->gates == NULL)
    return -ENOMEM;
  struct flow_gate *next = flow->gates;
  for (uint64_t i = 0; i < flow->plan->record_count; i++) {
    if (!has_gate(&flow->plan->flow.ops[i]))
      continue;
    next->high = flow->plan->flow.ops[i].highwater;
    (void)pthread_mutex_init(&next->lock, NULL); /* cannot fail on Linux */
    condition_open(&next->changed);
    flow->states[i].gate = next++;
  }
  return 0;
}

int flow_open(struct flow *flow, const struct file_plan *plan) {
  const struct flow_header *header = plan->flow.header;
  *flow = (struct flow){.plan = plan, .empty_record = FLOW_NONE};
  (void)pthread_mutex_init(&flow->events, NULL);
  flow->files = calloc((size_t)header->set_count + 1, sizeof *flow->files);
  flow->states = calloc(plan->record_count + 1, sizeof *flow->states);
  flow->fds = calloc((size_t)plan->handle_count + 1, sizeof *flow->fds);
  if (flow->files == NULL || flow->states == NULL || flow->fds == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < plan->handle_count; i++)
    flow->fds[i].set = FLOW_NONE;
  int rc = open_gates(flow);
  if (rc == 0)
    rc = flow_writes_open(flow);
  for (uint32_t i = 0; rc == 0 && i < header->set_count; i++)
    rc = flow_files_open(&flow->files[i], plan, i);
  return rc;
}

void flow_close(struct flow *flow) {
  if (flow->plan == NULL)
    return;
  for (uint32_t i = 0; flow->files != NULL && i < flow->plan->flow.header->set_count; i++)
    flow_files_close(&flow->files[i]);
  flow_writes_close(flow);
  free(flow->gates);
  free(flow->fds);
  free(flow->states);
  free(flow->files);
  (void)pthread_mutex_destroy(&flow->events);
  flow->plan = NULL;
}

void flow_seed(struct worker *worker) {
  uint64_t seed = worker->run->plan->flow.header->seed;
  worker->random = hash_mix(seed + GOLDEN * (worker->number + 1));
}

uint64_t flow_random(struct worker *worker) {
  worker->random += GOLDEN;
  return hash_mix(worker->random);
}

static uint64_t part_of(uint64_t random, uint64_t count) {
  return (uint64_t)(((wide)random * count) >> 64);
}

uint64_t flow_random_below(struct worker *worker, uint64_t count) {
  return part_of(flow_random(worker), count);
}

uint64_t flow_value_of(const struct flow_plan *plan, const struct flow_value *value,
                       uint64_t random) {
  if (value->table == FLOW_NONE)
    return value->constant;
  return plan
      ->tables[(size_t)value->table * FLOW_TABLE_VALUES + part_of(random, FLOW_TABLE_VALUES)];
}

static void gate_wait(struct flow_gate *gate) {
  condition_wait(&gate->changed, &gate->lock, WAIT_NS);
}

/* Makes room for `value` more posts and waits for as many. */
static bool semaphore_wait(struct worker *worker, struct flow_gate *gate, uint64_t value) {
  (void)pthread_mutex_lock(&gate->lock); /* of ours: cannot fail */
  gate->high += value;
  (void)pthread_cond_broadcast(&gate->changed);
  while (gate->low < value && !worker_is_over(worker))
    gate_wait(gate);
  bool goes_on = gate->low >= value;
  gate->low -= goes_on ? value : 0;
  (void)pthread_mutex_unlock(&gate->lock);
  return goes_on;
}

static bool post(struct worker *worker, struct flow_gate *gate, uint64_t value, bool is_blocking) {
  (void)pthread_mutex_lock(&gate->lock);
  while (is_blocking && gate->high < value && !worker_is_over(worker))
    gate_wait(gate);
  bool goes_on = !is_blocking || gate->high >= value;
  if (goes_on) {
    gate->high -= is_blocking ? value : 0;
    gate->low += value;
    (void)pthread_cond_broadcast(&gate->changed);
  }
  (void)pthread_mutex_unlock(&gate->lock);
  return goes_on;
}

static bool post_all(struct worker *worker, const struct flow_op *op, uint64_t value) {
  const struct flow *flow = worker->run->flow;
  bool goes_on = true;
  for (uint32_t i = op->link; goes_on && i != FLOW_NONE; i = flow->plan->flow.ops[i].other)
    goes_on = post(worker, flow->states[i].gate, value, (op->flags & FLOW_IS_BLOCKING) != 0);
  return goes_on;
}

static bool block(struct worker *worker, struct flow_gate *gate) {
  (void)pthread_mutex_lock(&gate->lock);
  uint64_t before = gate->wakes;
  while (gate->wakes == before && !worker_is_over(worker))
    gate_wait(gate);
  bool goes_on = gate->wakes != before;
  (void)pthread_mutex_unlock(&gate->lock);
  return goes_on;
}

static bool wake_all(const struct flow *flow, const struct flow_op *op) {
  for (uint32_t i = op->link; i != FLOW_NONE; i = flow->plan->flow.ops[i].other) {
    struct flow_gate *gate = flow->states[i].gate;
    (void)pthread_mutex_lock(&gate->lock);
    gate->wakes++;
    (void)pthread_cond_broadcast(&gate->changed);
    (void)pthread_mutex_unlock(&gate->lock);
  }
  return true;
}

/* Takes `count` of the events that come at a fixed rate; waits until there are as many. */
static bool take_events(struct worker *worker, uint64_t count) {
  struct flow *flow = worker->run->flow;
  uint64_t rate = flow->plan->flow.header->events_per_second;
  for (;;) {
    uint64_t past_ns = clock_now_ns() - worker->run->start_ns;
    uint64_t made = past_ns / SECOND_NS * rate + past_ns % SECOND_NS * rate / SECOND_NS;
    (void)pthread_mutex_lock(&flow->events);
    if (made > flow->events_taken + BACKLOG_S * rate + count)
      flow->events_taken = made - BACKLOG_S * rate - count;
    bool has_come = made >= flow->events_taken + count;
    flow->events_taken += has_come ? count : 0;
    uint64_t needed = flow->events_taken + count;
    (void)pthread_mutex_unlock(&flow->events);
    if (has_come)
      return true;
    uint64_t due_ns = needed / rate * SECOND_NS + needed % rate * SECOND_NS / rate + 1;
    if (!worker_wait_until(worker, worker->run->start_ns + due_ns))
      return false;
  }
}

/* What a limit goes by: of its target, or of all threads. */
static uint64_t counted(const struct flow *flow, const struct flow_op *op) {
  const struct flow_state *target = op->link == FLOW_NONE ? NULL : &flow->states[op->link];
  switch ((enum flow_kind)op->kind) {
  case FLOW_IO_LIMIT:
    return target != NULL ? target->count : flow->data_count;
  case FLOW_BYTE_LIMIT:
    return target != NULL ? target->bytes : flow->data_bytes;
  case FLOW_FINISH_ON_BYTES:
    return target != NULL ? target->bytes : flow->bytes;
  default:
    return target != NULL ? target->count : flow->count;
  }
}

/* Each limit charges what was done since its thread came here last, whoever did it: that of all
 * threads is charged by each of them, as filebench does. */
static bool limit(struct worker *worker, uint32_t number) {
  struct flow *flow = worker->run->flow;
  const struct flow_op *op = &flow->plan->flow.ops[number];
  struct flow_state *state = &flow->states[number];
  uint64_t now = counted(flow, op);
  uint64_t before = state->last;
  state->last = now;
  if (before == 0)
    return true;
  state->budget -= (int64_t)(now - before);
  if (state->budget >= 0)
    return true;
  uint64_t unit = op->kind == FLOW_BYTE_LIMIT ? MIB : 1;
  uint64_t events = (uint64_t)-state->budget / unit + (op->kind == FLOW_BYTE_LIMIT);
  state->budget += (int64_t)(events * unit);
  return take_events(worker, events);
}

/* Ends the thread, and in a run that does not wait for all of them the run. */
static bool finish(struct worker *worker) {
  worker->is_done = true;
  if (worker->run->plan->flow.header->end != FLOW_END_ALL)
    worker_end_run(worker->run, RUN_END_PLAN);
  return false;
}

static bool hog(struct worker *worker, uint64_t turns) {
  volatile unsigned char place = 0;
  for (uint64_t i = 0; i < turns; i++) {
    place = 1;
    if (i % MIB == 0 && worker_is_over(worker))
      return false;
  }
  return place <= 1;
}

/* None of these has a place in the statistics; a limit without events does not wait. */
bool flow_control(struct worker *worker, uint32_t number) {
  struct flow *flow = worker->run->flow;
  const struct flow_op *op = &flow->plan->flow.ops[number];
  uint64_t value = flow_value_of(&flow->plan->flow, &op->value, flow_random(worker));
  bool has_events = flow->plan->flow.header->events_per_second > 0;
  switch ((enum flow_kind)op->kind) {
  case FLOW_DELAY:
    return worker_wait_until(worker,
                             value < DELAY_MAX_S ? clock_now_ns() + value * SECOND_NS : UINT64_MAX);
  case FLOW_HOG:
    return hog(worker, value);
  case FLOW_EVENT_LIMIT:
    return !has_events || take_events(worker, 1);
  case FLOW_IO_LIMIT:
  case FLOW_OPERATION_LIMIT:
  case FLOW_BYTE_LIMIT:
    return !has_events || limit(worker, number);
  case FLOW_FINISH_ON_COUNT:
    return counted(flow, op) < value || finish(worker);
  case FLOW_FINISH_ON_BYTES:
    return counted(flow, op) <= value || finish(worker);
  case FLOW_SEMAPHORE_WAIT:
    return semaphore_wait(worker, flow->states[number].gate, value);
  case FLOW_SEMAPHORE_POST:
    return post_all(worker, op, value);
  case FLOW_BLOCK:
    return block(worker, flow->states[number].gate);
  case FLOW_WAKE:
    return wake_all(flow, op);
  default:
    return true;
  }
}
