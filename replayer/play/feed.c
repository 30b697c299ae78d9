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
#define NOTHING_CUT UINT64_MAX /* the longest gap then */

/* Records of one block of the plan. */
struct block {
  uint32_t first;    /* of those that run */
  uint32_t end;      /* behind them */
  uint64_t position; /* in the run, of the first record of the plan's block, modulo 2^64 */
  _Alignas(64) struct block_record records[BLOCK_PLAN_STRIDE + 1]; /* the last one is a pause */
};

struct feed_lane {
  struct spsc_ring ring;
  const struct feed *feed;
  const struct block_record
      *next; /* submitting thread: of the block in hand; NULL: there is none */
  const struct block_record *behind; /* the last of the block */
  uint64_t position;                 /* of the block */
  struct block blocks[BLOCKS];
};

/* Requests on a target that run as they stand in the plan need no further look. */
struct plain {
  uint32_t operations;  /* bits of those of which it is true */
  uint64_t end_sectors; /* up to here */
};

struct feed {
  const struct block_plan *plan;
  struct feed_rules rules;
  struct plain plain[BLOCK_PLAN_TARGETS_MAX];
  pthread_t thread;
  _Atomic bool is_closing;
  bool is_stopped;
  _Atomic int end;          /* 0 while reading, 1 at the end, -errno */
  uint64_t last_ns;         /* reading thread: intended time of the last record read */
  uint64_t last_raw_ns;     /* reading thread: the same as the plan has it */
  uint64_t done_at;         /* reading thread: next entry of the rules' `done` */
  struct feed_cuts cuts;    /* reading thread; others after its end */
  struct fit_counts places; /* as `cuts` */
  struct block_record raw[BLOCK_PLAN_STRIDE];
  uint32_t lane_count;
  struct feed_lane lanes[];
};

enum completions_status feed_status(enum feed_verdict verdict) {
  switch (verdict) {
  case FEED_RUN:
  case FEED_DONE_BEFORE:
  case FEED_MARK:
  case FEED_PAUSE:
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

/* Cuts the gap before a record. */
static void cut_gap(struct feed *feed, uint64_t raw_ns) {
  uint64_t gap_ns = raw_ns - feed->last_raw_ns;
  uint64_t cut_ns = gap_ns - capped(feed, gap_ns);
  feed->cuts.gaps += cut_ns > 0;
  feed->cuts.cut_ns += cut_ns;
  feed->last_raw_ns = raw_ns;
}

/* Counts a time of the plan from the run's start, without what was cut of gaps before it. */
static uint64_t time_in_run(struct feed *feed, uint64_t raw_ns) {
  const struct feed_rules *rules = &feed->rules;
  if (rules->max_idle_ns != NOTHING_CUT)
    cut_gap(feed, raw_ns);
  return fraction_divide(raw_ns - rules->window.from_ns - feed->cuts.cut_ns, &rules->speed);
}

/* Whether an earlier run completed the record of this number; numbers only rise. */
static bool is_done_before(struct feed *feed, uint64_t number) {
  const struct feed_rules *rules = &feed->rules;
  while (feed->done_at < rules->done_count && rules->done[feed->done_at] < number)
    feed->done_at++;
  return feed->done_at < rules->done_count && rules->done[feed->done_at] == number;
}

static bool is_of_zones(uint8_t operation) { return operation >= BLOCK_ZONE_APPEND; }

/* Whether the target takes this operation at all. */
static enum feed_verdict may_run(const struct feed_target *target, uint8_t operation) {
  if (writes(operation) && !target->may_write)
    return FEED_SKIP_READ_ONLY;
  bool is_missing = (operation == BLOCK_DISCARD && !target->can_discard) ||
                    (is_of_zones(operation) && !target->has_zones);
  return is_missing ? FEED_SKIP_UNSUPPORTED : FEED_RUN;
}

static struct plain plain_of(const struct feed_target *target, enum fit_policy policy) {
  struct plain plain = {.end_sectors = fit_plain_sectors(&target->place, policy)};
  for (uint8_t operation = 0; operation < BLOCK_OPERATIONS && plain.end_sectors > 0; operation++)
    if (may_run(target, operation) == FEED_RUN)
      plain.operations |= 1U << operation;
  return plain;
}

/* Looks at a record that is not plain. */
__attribute__((noinline)) static enum feed_verdict examine(struct feed *feed,
                                                           struct block_record *record) {
  const struct feed_target *target = &feed->rules.targets[record->target];
  enum feed_verdict verdict = may_run(target, record->operation);
  if (verdict != FEED_RUN)
    return verdict;
  bool fits = fit_record(&target->place, feed->rules.out_of_range, record, &feed->places);
  return fits ? FEED_RUN : FEED_SKIP_RANGE;
}

static inline enum feed_verdict verdict_of(struct feed *feed, struct block_record *record) {
  const struct plain *plain = &feed->plain[record->target];
  bool is_plain = (plain->operations >> record->operation & 1U) != 0 &&
                  record->sector + record->length_sectors <= plain->end_sectors;
  return is_plain ? FEED_RUN : examine(feed, record);
}

static void set_note(struct block_record *record, enum feed_verdict verdict, uint32_t place,
                     uint32_t lanes) {
  record->note = lanes << FEED_LANES_SHIFT | place << FEED_PLACE_SHIFT | (uint32_t)verdict;
}

/* Whether times stay as they are in the plan, but for where they begin, and all is to be done. */
static bool is_as_planned(const struct feed *feed) {
  const struct feed_rules *rules = &feed->rules;
  return rules->max_idle_ns == NOTHING_CUT && rules->done_count == 0 &&
         rules->speed.numerator == rules->speed.denominator;
}

/* The same as `prepare` does then. */
static void prepare_as_planned(struct feed *feed, struct block_record *records, uint32_t first,
                               uint32_t end) {
  uint64_t from_ns = feed->rules.window.from_ns;
  for (uint32_t i = first; i < end; i++) {
    struct block_record *record = &records[i];
    record->intended_ns -= from_ns;
    record->think_ns = record->think_ns < INT64_MAX ? record->think_ns : INT64_MAX;
    set_note(record, verdict_of(feed, record), i, 0);
  }
}

/* Makes what is submitted of the plan's record of this number, where it is. */
static enum feed_verdict prepare(struct feed *feed, uint64_t number, struct block_record *record) {
  record->intended_ns = time_in_run(feed, record->intended_ns);
  if (record->think_ns > 0)
    record->think_ns = fraction_divide(capped(feed, record->think_ns), &feed->rules.speed);
  enum feed_verdict verdict = verdict_of(feed, record);
  verdict = is_done_before(feed, number) ? FEED_DONE_BEFORE : verdict;
  set_note(record, verdict, number % BLOCK_PLAN_STRIDE, 0);
  return verdict;
}

/* The block that the reading thread fills for a lane; there is one. */
static struct block *filling(struct feed *feed, uint32_t lane) {
  uint64_t at;
  (void)spsc_ring_can_fill(&feed->lanes[lane].ring, &at); /* as can_fill has just found */
  return &feed->lanes[lane].blocks[at];
}

static void append(struct feed *feed, uint32_t lane, const struct block_record *record,
                   enum feed_verdict verdict, uint32_t place, uint16_t lanes) {
  struct block *block = filling(feed, lane);
  struct block_record *out = &block->records[block->end++];
  *out = *record;
  set_note(out, verdict, place, lanes);
}

/* Gives a record to the lane that owns it, and to all others a mark where they must not overtake
 * it. */
static void share_out(struct feed *feed, uint64_t number, struct block_record *record) {
  const uint32_t place = number % BLOCK_PLAN_STRIDE;
  enum feed_verdict verdict = prepare(feed, number, record);
  uint16_t lanes = lanes_of(record, feed->lane_count);
  uint32_t owner = lanes_owner(lanes);
  append(feed, owner, record, verdict, place, lanes);
  bool is_ordered = verdict == FEED_RUN && lanes_is_ordered(record, lanes);
  for (uint32_t lane = 0; lane < feed->lane_count && is_ordered; lane++)
    if (lane != owner)
      append(feed, lane, record, FEED_MARK, place, lanes);
}

/* Reads a block of the plan for several lanes. One without requests must neither wait for nothing
 * nor look all the time: each gets the last record as a pause. */
static int read_shared(struct feed *feed, uint64_t number, uint32_t first, uint32_t end) {
  uint64_t place = number * BLOCK_PLAN_STRIDE;
  uint32_t count;
  int rc = block_plan_read_block(feed->plan, number, feed->raw, &count, &feed->last_ns);
  if (rc != 0)
    return rc;
  for (uint32_t lane = 0; lane < feed->lane_count; lane++)
    filling(feed, lane)->end = 0;
  for (uint32_t i = first; i < end; i++)
    share_out(feed, place + i, &feed->raw[i]);
  for (uint32_t lane = 0; lane < feed->lane_count; lane++) {
    append(feed, lane, &feed->raw[end - 1], FEED_PAUSE, end, 0);
    filling(feed, lane)->first = 0;
  }
  return 0;
}

/* Reads a block of the plan to where the one lane takes it. */
static int read_for_one(struct feed *feed, uint64_t number, uint32_t first, uint32_t end) {
  struct block *block = filling(feed, 0);
  uint32_t count;
  int rc = block_plan_read_block(feed->plan, number, block->records, &count, &feed->last_ns);
  if (rc == 0 && is_as_planned(feed))
    prepare_as_planned(feed, block->records, first, end);
  else
    for (uint32_t i = first; i < end && rc == 0; i++)
      (void)prepare(feed, number * BLOCK_PLAN_STRIDE + i, &block->records[i]);
  block->first = first;
  block->end = end;
  return rc;
}

/* Reads a block of the plan into those of the lanes. */
static int read_block(struct feed *feed, uint64_t number) {
  const struct feed_window *window = &feed->rules.window;
  uint64_t place = number * BLOCK_PLAN_STRIDE;
  uint64_t left = window->end - place;
  uint32_t first = window->first > place ? (uint32_t)(window->first - place) : 0;
  uint32_t end = left < BLOCK_PLAN_STRIDE ? (uint32_t)left : BLOCK_PLAN_STRIDE;
  int rc = feed->lane_count == 1 ? read_for_one(feed, number, first, end)
                                 : read_shared(feed, number, first, end);
  for (uint32_t lane = 0; lane < feed->lane_count && rc == 0; lane++) {
    filling(feed, lane)->position = place - window->first;
    spsc_ring_fill(&feed->lanes[lane].ring);
  }
  return rc;
}

static bool can_fill(const struct feed *feed) {
  uint64_t at;
  for (uint32_t lane = 0; lane < feed->lane_count; lane++)
    if (!spsc_ring_can_fill(&feed->lanes[lane].ring, &at))
      return false;
  return true;
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
    while (!can_fill(feed)) {
      if (atomic_load_explicit(&feed->is_closing, memory_order_relaxed))
        return NULL;
      pause_briefly();
    }
    rc = read_block(feed, number);
  }
  /* Release: whoever sees the end also sees the last block. */
  atomic_store_explicit(&feed->end, rc == 0 ? 1 : rc, memory_order_release);
  return NULL;
}

static void wait_until_ahead(const struct feed *feed) {
  while (can_fill(feed) && atomic_load_explicit(&feed->end, memory_order_acquire) == 0)
    pause_briefly();
}

int feed_open(struct feed **out, const struct block_plan *plan, const struct feed_rules *rules) {
  /* The run begins with blocks in hand, so that its first requests are not late. */
  uint32_t lanes = rules->lanes > 0 ? rules->lanes : 1;
  size_t bytes = sizeof(struct feed) + lanes * sizeof(struct feed_lane);
  struct feed *feed = aligned_alloc(_Alignof(struct feed), bytes);
  if (feed == NULL)
    return -ENOMEM;
  memset(feed, 0, bytes); /* also touches every page before the run */
  feed->lane_count = lanes;
  for (uint32_t i = 0; i < lanes; i++) {
    feed->lanes[i].ring.mask = BLOCKS - 1;
    feed->lanes[i].feed = feed;
  }
  feed->plan = plan;
  feed->rules = *rules;
  for (uint32_t i = 0; i < plan->target_count; i++)
    feed->plain[i] = plain_of(&rules->targets[i], rules->out_of_range);
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

struct feed_lane *feed_lane(struct feed *feed, uint32_t number) { return &feed->lanes[number]; }

/* Takes the next block in hand. */
static const struct block_record *next_block(struct feed_lane *lane) {
  uint64_t at;
  if (!spsc_ring_can_empty(&lane->ring, &at))
    return NULL;
  const struct block *block = &lane->blocks[at];
  lane->next = block->records + block->first;
  lane->behind = block->records + block->end;
  lane->position = block->position;
  return lane->next;
}

const struct block_record *feed_peek(struct feed_lane *lane) {
  return lane->next != NULL ? lane->next : next_block(lane);
}

uint64_t feed_position(const struct feed_lane *lane) {
  return lane->position + (lane->next->note >> FEED_PLACE_SHIFT & FEED_PLACE_MASK);
}

uint32_t feed_left(const struct feed_lane *lane) { return (uint32_t)(lane->behind - lane->next); }

void feed_advance(struct feed_lane *lane, uint32_t count) {
  lane->next += count;
  if (lane->next < lane->behind)
    return;
  lane->next = NULL;
  spsc_ring_empty(&lane->ring);
}

int feed_state(struct feed_lane *lane) {
  int end = atomic_load_explicit(&lane->feed->end, memory_order_acquire);
  /* The last blocks may have come between the caller's peek and the end. */
  return end != 0 && feed_peek(lane) != NULL ? 0 : end;
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
