#include "play/feed.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "play/spsc_ring.h"
#include "play/stop.h"

#define BLOCKS 16U
#define PAUSE_NS 200000L

struct block {
  uint32_t count; /* records in it */
  struct feed_record records[BLOCK_PLAN_STRIDE];
};

struct feed {
  struct spsc_ring ring;
  const struct block_plan *plan;
  struct feed_rules rules;
  pthread_t thread;
  _Atomic bool is_closing;
  bool is_stopped;
  _Atomic int end;                /* 0 while reading, 1 at the end, -errno */
  uint64_t last_ns;               /* reading thread: intended time of the last record read */
  uint64_t last_raw_ns;           /* reading thread: the same as the plan has it */
  uint64_t done_at;               /* reading thread: next entry of the rules' `done` */
  struct feed_cuts cuts;          /* reading thread; others after its end */
  struct fit_counts places;       /* as `cuts` */
  const struct feed_record *next; /* submitting thread: of the block in hand; NULL: there is none */
  const struct feed_record *behind; /* the last of the block */
  struct block_record raw[BLOCK_PLAN_STRIDE];
  struct block blocks[BLOCKS];
};

enum completions_status feed_status(enum feed_verdict verdict) {
  switch (verdict) {
  case FEED_RUN:
  case FEED_DONE_BEFORE:
    break;
  case FEED_SKIP_READ_ONLY:
    return COMPLETION_SKIPPED_READ_ONLY;
  case FEED_SKIP_RANGE:
    return COMPLETION_SKIPPED_RANGE;
  case FEED_SKIP_UNSUPPORTED:
    return COMPLETION_SKIPPED_UNSUPPORTED;
  }
  return COMPLETION_DONE;
}

static bool writes(uint8_t operation) {
  return operation != BLOCK_READ && operation != BLOCK_FLUSH;
}

static uint64_t capped(const struct feed *feed, uint64_t gap_ns) {
  return gap_ns < feed->rules.max_idle_ns ? gap_ns : feed->rules.max_idle_ns;
}

/* Counts a time of the plan from the run's start, without what was cut of gaps before it. */
static uint64_t time_in_run(struct feed *feed, uint64_t raw_ns) {
  uint64_t gap_ns = raw_ns - feed->last_raw_ns;
  uint64_t cut_ns = gap_ns - capped(feed, gap_ns);
  feed->cuts.gaps += cut_ns > 0;
  feed->cuts.cut_ns += cut_ns;
  feed->last_raw_ns = raw_ns;
  return fraction_divide(raw_ns - feed->rules.window.from_ns - feed->cuts.cut_ns,
                         &feed->rules.speed);
}

static void prepare(struct feed *feed, const struct block_record *raw, struct feed_record *out) {
  const struct feed_target *target = &feed->rules.targets[raw->target];
  out->plan = *raw;
  out->plan.intended_ns = time_in_run(feed, raw->intended_ns);
  out->plan.think_ns = fraction_divide(capped(feed, raw->think_ns), &feed->rules.speed);
  out->verdict = FEED_RUN;
  if (writes(raw->operation) && !target->may_write)
    out->verdict = FEED_SKIP_READ_ONLY;
  else if ((raw->operation == BLOCK_DISCARD && !target->can_discard) ||
           (raw->operation >= BLOCK_ZONE_APPEND && !target->has_zones))
    out->verdict = FEED_SKIP_UNSUPPORTED;
  else if (!fit_record(&target->place, feed->rules.out_of_range, &out->plan, &feed->places))
    out->verdict = FEED_SKIP_RANGE;
}

/* Whether an earlier run completed the record of this number; numbers only rise. */
static bool is_done_before(struct feed *feed, uint64_t number) {
  const struct feed_rules *rules = &feed->rules;
  while (feed->done_at < rules->done_count && rules->done[feed->done_at] < number)
    feed->done_at++;
  return feed->done_at < rules->done_count && rules->done[feed->done_at] == number;
}

static int read_block(struct feed *feed, uint64_t number, struct block *block) {
  const struct feed_window *window = &feed->rules.window;
  uint64_t place = number * BLOCK_PLAN_STRIDE;
  uint32_t count;
  int rc = block_plan_read_block(feed->plan, number, feed->raw, &count, &feed->last_ns);
  uint32_t first = window->first > place ? (uint32_t)(window->first - place) : 0;
  uint32_t end = window->end - place < count ? (uint32_t)(window->end - place) : count;
  block->count = end - first;
  for (uint32_t i = first; rc == 0 && i < end; i++) {
    struct feed_record *out = &block->records[i - first];
    prepare(feed, &feed->raw[i], out);
    if (is_done_before(feed, place + i))
      out->verdict = FEED_DONE_BEFORE;
  }
  return rc;
}

static void pause_briefly(void) {
  struct timespec pause = {.tv_nsec = PAUSE_NS};
  (void)nanosleep(&pause, NULL); /* woken early is as good */
}

/* It sleeps while all blocks are full: it is far ahead then, and must not disturb the run. */
static void *read_plan(void *argument) {
  struct feed *feed = argument;
  const struct feed_window *window = &feed->rules.window;
  uint64_t total = window->end > window->first ? (window->end - 1) / BLOCK_PLAN_STRIDE + 1 : 0;
  int rc = 0;
  for (uint64_t number = window->first / BLOCK_PLAN_STRIDE; number < total && rc == 0; number++) {
    uint64_t at;
    while (!spsc_ring_can_fill(&feed->ring, &at)) {
      if (atomic_load_explicit(&feed->is_closing, memory_order_relaxed))
        return NULL;
      pause_briefly();
    }
    rc = read_block(feed, number, &feed->blocks[at]);
    if (rc == 0)
      spsc_ring_fill(&feed->ring);
  }
  /* Release: whoever sees the end also sees the last block. */
  atomic_store_explicit(&feed->end, rc == 0 ? 1 : rc, memory_order_release);
  return NULL;
}

static void wait_until_ahead(const struct feed *feed) {
  uint64_t at;
  while (spsc_ring_can_fill(&feed->ring, &at) &&
         atomic_load_explicit(&feed->end, memory_order_acquire) == 0)
    pause_briefly();
}

int feed_open(struct feed **out, const struct block_plan *plan, const struct feed_rules *rules) {
  /* The run begins with blocks in hand, so that its first requests are not late. */
  struct feed *feed = aligned_alloc(_Alignof(struct feed), sizeof *feed);
  if (feed == NULL)
    return -ENOMEM;
  memset(feed, 0, sizeof *feed); /* also touches every page before the run */
  feed->ring.mask = BLOCKS - 1;
  feed->plan = plan;
  feed->rules = *rules;
  feed->last_raw_ns = rules->window.from_ns;
  int rc = stop_thread_create(&feed->thread, read_plan, feed);
  if (rc != 0) {
    free(feed);
    return rc;
  }
  wait_until_ahead(feed);
  *out = feed;
  return 0;
}

/* Takes the next block in hand. */
static const struct feed_record *next_block(struct feed *feed) {
  uint64_t at;
  if (!spsc_ring_can_empty(&feed->ring, &at))
    return NULL;
  const struct block *block = &feed->blocks[at];
  feed->next = block->records;
  feed->behind = block->records + block->count;
  return feed->next;
}

const struct feed_record *feed_peek(struct feed *feed) {
  return feed->next != NULL ? feed->next : next_block(feed);
}

void feed_advance(struct feed *feed) {
  if (++feed->next < feed->behind)
    return;
  feed->next = NULL;
  spsc_ring_empty(&feed->ring);
}

int feed_state(struct feed *feed) {
  int end = atomic_load_explicit(&feed->end, memory_order_acquire);
  /* The last blocks may have come between the caller's peek and the end. */
  return end != 0 && feed_peek(feed) != NULL ? 0 : end;
}

struct fit_counts feed_places(const struct feed *feed) { return feed->places; }

struct feed_cuts feed_cuts(const struct feed *feed) { return feed->cuts; }

void feed_stop(struct feed *feed) {
  if (feed->is_stopped)
    return;
  atomic_store_explicit(&feed->is_closing, true, memory_order_relaxed);
  (void)pthread_join(feed->thread, NULL); /* fails only for a thread that is not ours */
  feed->is_stopped = true;
}

void feed_close(struct feed *feed) {
  if (feed == NULL)
    return;
  feed_stop(feed);
  free(feed);
}
