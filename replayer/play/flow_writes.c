#include "play/flow_writes.h"

#include <errno.h>
#include <stdlib.h>

#include "play/clock.h"
#include "play/condition.h"

#define NO_WRITE UINT32_MAX
/* How long its thread waits before it looks at the end of the run, and a writer, of which there
 * are many. */
#define LOOK_NS 20000000U
#define WRITER_LOOK_NS 100000000U
#define WAIT_MAX_NS 1000000000U

struct write {
  struct file_record record;
  uint64_t submitted_ns; /* clock */
  uint32_t fd;
  uint32_t cycle; /* of its thread */
  uint32_t next;  /* of the same descriptor, or free; or NO_WRITE */
};

/* What is to be written by one descriptor. */
struct fd_queue {
  uint32_t first; /* not begun; or NO_WRITE */
  uint32_t last;
  uint32_t open_count; /* submitted and not ended */
};

/* Of one thread. All but the writes under way is used under the lock. */
struct flow_writes {
  pthread_mutex_t lock;
  pthread_cond_t submitted; /* for writers */
  pthread_cond_t ended;     /* for the thread */
  bool is_closed;           /* the thread has ended */
  uint32_t queued;          /* not begun */
  uint32_t open_count;      /* submitted and not ended */
  uint32_t ended_count;     /* since the last wait */
  uint32_t ready_first;     /* this and the next two: descriptors with a write that may begin */
  uint32_t ready_count;
  uint32_t ready[FLOW_FDS_MAX];
  uint32_t free_first; /* or NO_WRITE */
  uint32_t used;       /* writes beyond it were never used */
  struct fd_queue fds[FLOW_FDS_MAX];
  struct write writes[FLOW_WRITES_MAX];
};

static uint32_t owner_of(const struct file_plan *plan, uint32_t writer) {
  return plan->flow.ops[plan->threads[writer].first].other;
}

int flow_writes_open(struct flow *flow) {
  const struct file_plan *plan = flow->plan;
  flow->writes = calloc(plan->thread_count, sizeof *flow->writes);
  if (flow->writes == NULL)
    return -ENOMEM;
  for (uint32_t i = file_plan_own_threads(plan); i < plan->thread_count; i++) {
    struct flow_writes **place = &flow->writes[owner_of(plan, i)];
    if (*place != NULL)
      continue;
    struct flow_writes *writes = calloc(1, sizeof *writes);
    if (writes == NULL)
      return -ENOMEM;
    (void)pthread_mutex_init(&writes->lock, NULL); /* cannot fail on Linux */
    condition_open(&writes->submitted);
    condition_open(&writes->ended);
    writes->free_first = NO_WRITE;
    for (uint32_t fd = 0; fd < FLOW_FDS_MAX; fd++)
      writes->fds[fd].first = NO_WRITE;
    *place = writes;
  }
  return 0;
}

void flow_writes_close(struct flow *flow) {
  for (uint32_t i = 0; flow->writes != NULL && i < flow->plan->thread_count; i++) {
    struct flow_writes *writes = flow->writes[i];
    if (writes == NULL)
      continue;
    (void)pthread_cond_destroy(&writes->ended); /* nobody waits any more */
    (void)pthread_cond_destroy(&writes->submitted);
    (void)pthread_mutex_destroy(&writes->lock);
    free(writes);
  }
  free(flow->writes);
  flow->writes = NULL;
}

static void lock(struct flow_writes *writes) {
  (void)pthread_mutex_lock(&writes->lock); /* of ours: cannot fail */
}

static void unlock(struct flow_writes *writes) { (void)pthread_mutex_unlock(&writes->lock); }

static void make_ready(struct flow_writes *writes, uint32_t fd) {
  writes->ready[(writes->ready_first + writes->ready_count++) % FLOW_FDS_MAX] = fd;
}

/* There is a free one, as fewer than FLOW_WRITES_MAX are submitted. */
static void enqueue(struct flow_writes *writes, const struct write *write) {
  struct fd_queue *queue = &writes->fds[write->fd];
  uint32_t number = writes->free_first;
  if (number != NO_WRITE)
    writes->free_first = writes->writes[number].next;
  else
    number = writes->used++;
  writes->writes[number] = *write;
  if (queue->first != NO_WRITE)
    writes->writes[queue->last].next = number;
  else
    queue->first = number;
  queue->last = number;
  /* Else a write by the descriptor is under way or ready, and this one comes behind. */
  if (queue->open_count++ == 0)
    make_ready(writes, write->fd);
  writes->queued++;
  writes->open_count++;
}

bool flow_writes_submit(struct worker *worker, const struct file_record *record, uint32_t fd) {
  struct flow_writes *writes = worker->run->flow->writes[worker->number];
  lock(writes);
  while (writes->open_count == FLOW_WRITES_MAX && !worker_is_over(worker))
    condition_wait(&writes->ended, &writes->lock, LOOK_NS);
  bool goes_on = writes->open_count < FLOW_WRITES_MAX;
  if (goes_on) {
    enqueue(writes, &(struct write){.record = *record,
                                    .submitted_ns = clock_now_ns(),
                                    .fd = fd,
                                    .cycle = worker->cycle,
                                    .next = NO_WRITE});
    (void)pthread_cond_signal(&writes->submitted);
  }
  unlock(writes);
  return goes_on;
}

bool flow_writes_settle(struct worker *worker, uint32_t fd) {
  struct flow_writes *writes = worker->run->flow->writes[worker->number];
  if (writes == NULL)
    return true;
  lock(writes);
  while (writes->fds[fd].open_count > 0 && !worker_is_over(worker))
    condition_wait(&writes->ended, &writes->lock, LOOK_NS);
  bool goes_on = writes->fds[fd].open_count == 0;
  unlock(writes);
  return goes_on;
}

bool flow_writes_wait(struct worker *worker) {
  struct flow_writes *writes = worker->run->flow->writes[worker->number];
  if (writes == NULL)
    return true;
  uint64_t until_ns = clock_now_ns() + WAIT_MAX_NS;
  bool is_over = false;
  lock(writes);
  uint32_t all = writes->open_count + writes->ended_count;
  uint32_t wanted = all < 2 ? all : all / 2;
  while (writes->ended_count < wanted && clock_now_ns() < until_ns &&
         !(is_over = worker_is_over(worker)))
    condition_wait(&writes->ended, &writes->lock, LOOK_NS);
  writes->ended_count = 0;
  unlock(writes);
  return !is_over;
}

void flow_writes_end(struct worker *worker) {
  struct flow_writes *writes = worker->run->flow->writes[worker->number];
  if (writes == NULL)
    return;
  lock(writes);
  writes->is_closed = true;
  (void)pthread_cond_broadcast(&writes->submitted);
  unlock(writes);
}

static struct write *dequeue(struct flow_writes *writes) {
  struct fd_queue *queue = &writes->fds[writes->ready[writes->ready_first]];
  struct write *write = &writes->writes[queue->first];
  writes->ready_first = (writes->ready_first + 1) % FLOW_FDS_MAX;
  writes->ready_count--;
  writes->queued--;
  queue->first = write->next;
  return write;
}

/* Returns a write that may begin, NULL: none came in a while. Sets *goes_on to whether one may
 * come: when the thread has ended, what is queued is behind that of other writers. */
static struct write *take(struct flow_writes *writes, bool *goes_on) {
  struct write *write = NULL;
  lock(writes);
  if (writes->ready_count == 0 && !writes->is_closed)
    condition_wait(&writes->submitted, &writes->lock, WRITER_LOOK_NS);
  if (writes->ready_count > 0)
    write = dequeue(writes);
  *goes_on = write != NULL || !writes->is_closed;
  unlock(writes);
  return write;
}

static void finish(struct flow_writes *writes, struct write *write) {
  struct fd_queue *queue = &writes->fds[write->fd];
  lock(writes);
  if (queue->first != NO_WRITE)
    make_ready(writes, write->fd);
  queue->open_count--;
  writes->open_count--;
  writes->ended_count++;
  write->next = writes->free_first;
  writes->free_first = (uint32_t)(write - writes->writes);
  (void)pthread_cond_signal(&writes->ended);
  unlock(writes);
}

void flow_writes_run(struct worker *worker) {
  const struct file_run *run = worker->run;
  struct flow_writes *writes = run->flow->writes[owner_of(run->plan, worker->number)];
  bool goes_on = true;
  while (goes_on && !worker_is_over(worker)) {
    struct write *write = take(writes, &goes_on);
    if (write == NULL) {
      results_hand_over(run->results, worker->block, clock_now_ns() - run->start_ns);
      continue;
    }
    worker->own = write->record;
    worker->cycle = write->cycle;
    worker_perform_due(worker, &worker->own, write->submitted_ns);
    finish(writes, write);
  }
  worker->is_done = !goes_on;
}

uint64_t flow_writes_dropped(const struct flow *flow) {
  uint64_t dropped = 0;
  for (uint32_t i = 0; flow->writes != NULL && i < flow->plan->thread_count; i++)
    dropped += flow->writes[i] == NULL ? 0 : flow->writes[i]->queued;
  return dropped;
}
