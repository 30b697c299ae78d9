#include "replay/feed.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "replay/conveyor.h"
#include "replay/stop.h"

#define BLOCKS 16U
#define PAUSE_NS 200000L

struct block {
  uint32_t count; /* records in it */
  struct feed_record records[PLAN_STRIDE];
};

struct feed {
  struct conveyor conveyor;
  const struct plan *plan;
  struct feed_rules rules;
  pthread_t thread;
  _Atomic bool is_closing;
  _Atomic int end;          /* 0 while reading, 1 at the end, -errno */
  uint64_t last_ns;         /* reading thread: intended time of the last record read */
  _Atomic uint64_t wrapped; /* requests */
  uint32_t position;        /* submitting thread: next record of the block in hand */
  struct plan_record raw[PLAN_STRIDE];
  struct block blocks[BLOCKS];
};

static bool writes(uint8_t operation) {
  return operation == PLAN_WRITE || operation == PLAN_DISCARD || operation == PLAN_WRITE_ZEROES;
}

/* Brings an address that lies beyond the target back into it. */
static enum feed_verdict fit(struct feed *feed, struct plan_record *record, uint64_t size) {
  if (feed->rules.out_of_range != RANGE_WRAP || record->length_sectors > size)
    return FEED_SKIP_RANGE;
  uint64_t last = size - record->length_sectors;
  record->sector %= size;
  if (record->sector > last)
    record->sector = last;
  atomic_fetch_add_explicit(&feed->wrapped, 1, memory_order_relaxed);
  return FEED_RUN;
}

static void prepare(struct feed *feed, const struct plan_record *raw, struct feed_record *out) {
  const struct feed_target *target = &feed->rules.targets[raw->target];
  out->plan = *raw;
  out->plan.intended_ns = fraction_divide(raw->intended_ns, &feed->rules.speed);
  out->verdict = FEED_RUN;
  if (writes(raw->operation) && !target->may_write)
    out->verdict = FEED_SKIP_READ_ONLY;
  else if (raw->operation == PLAN_DISCARD && !target->can_discard)
    out->verdict = FEED_SKIP_UNSUPPORTED;
  else if (raw->operation != PLAN_FLUSH && raw->sector + raw->length_sectors > target->size_sectors)
    out->verdict = fit(feed, &out->plan, target->size_sectors);
}

static int read_block(struct feed *feed, uint64_t number, struct block *block) {
  int rc = plan_read_block(feed->plan, number, feed->raw, &block->count, &feed->last_ns);
  for (uint32_t i = 0; rc == 0 && i < block->count; i++)
    prepare(feed, &feed->raw[i], &block->records[i]);
  return rc;
}

static void pause_briefly(void) {
  struct timespec pause = {.tv_nsec = PAUSE_NS};
  (void)nanosleep(&pause, NULL); /* woken early is as good */
}

static void *read_plan(void *argument) {
  struct feed *feed = argument;
  uint64_t total = plan_blocks(feed->plan);
  int rc = 0;
  for (uint64_t number = 0; number < total && rc == 0; number++) {
    uint64_t at;
    while (!conveyor_can_fill(&feed->conveyor, &at)) {
      if (atomic_load_explicit(&feed->is_closing, memory_order_relaxed))
        return NULL;
      pause_briefly();
    }
    rc = read_block(feed, number, &feed->blocks[at]);
    if (rc == 0)
      conveyor_fill(&feed->conveyor);
  }
  /* Release: whoever sees the end also sees the last block. */
  atomic_store_explicit(&feed->end, rc == 0 ? 1 : rc, memory_order_release);
  return NULL;
}

static void wait_until_ahead(const struct feed *feed) {
  uint64_t at;
  while (conveyor_can_fill(&feed->conveyor, &at) &&
         atomic_load_explicit(&feed->end, memory_order_acquire) == 0)
    pause_briefly();
}

int feed_open(struct feed **out, const struct plan *plan, const struct feed_rules *rules) {
  struct feed *feed = aligned_alloc(_Alignof(struct feed), sizeof *feed);
  if (feed == NULL)
    return -ENOMEM;
  memset(feed, 0, sizeof *feed); /* also touches every page before the run */
  feed->conveyor.mask = BLOCKS - 1;
  feed->plan = plan;
  feed->rules = *rules;
  int rc = stop_thread_create(&feed->thread, read_plan, feed);
  if (rc != 0) {
    free(feed);
    return rc;
  }
  wait_until_ahead(feed);
  *out = feed;
  return 0;
}

const struct feed_record *feed_peek(const struct feed *feed) {
  uint64_t at;
  if (!conveyor_can_empty(&feed->conveyor, &at))
    return NULL;
  return &feed->blocks[at].records[feed->position];
}

void feed_advance(struct feed *feed) {
  uint64_t at;
  (void)conveyor_can_empty(&feed->conveyor, &at); /* feed_peek has just said so */
  feed->position++;
  if (feed->position == feed->blocks[at].count) {
    feed->position = 0;
    conveyor_empty(&feed->conveyor);
  }
}

int feed_state(const struct feed *feed) {
  int end = atomic_load_explicit(&feed->end, memory_order_acquire);
  /* The last blocks may have come between the caller's peek and the end. */
  return end != 0 && feed_peek(feed) != NULL ? 0 : end;
}

uint64_t feed_wrapped(const struct feed *feed) {
  return atomic_load_explicit(&feed->wrapped, memory_order_relaxed);
}

void feed_close(struct feed *feed) {
  if (feed == NULL)
    return;
  atomic_store_explicit(&feed->is_closing, true, memory_order_relaxed);
  (void)pthread_join(feed->thread, NULL); /* fails only for a thread that is not ours */
  free(feed);
}
