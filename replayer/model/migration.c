#include "model/migration.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define NO_TIER UINT8_MAX

enum { READS, WRITES, PROMOTED_OUT, PROMOTED_IN, DEMOTED_OUT, DEMOTED_IN, TIER_VALUES };

struct migration {
  struct tk_migration_setup setup;
  struct tier_set tiers;
  struct tier_rank *ranks; /* of each window's items, `item` counted from its first */
  uint64_t widest;         /* items of the largest window */
};

/* An extent that should move. */
struct candidate {
  double saving;
  uint32_t item; /* in the window */
};

/* The extents that may be moved away from a tier, in the order in which that happens. */
struct queue {
  uint32_t first;
  uint32_t last;
};

struct run {
  const struct migration *migration;
  uint8_t *tier_of;              /* where each extent is */
  uint8_t *wanted;               /* where it should be, NO_TIER without traffic in the window */
  uint32_t *item_of;             /* its item in the window, NONE without traffic */
  uint32_t *after;               /* the next in the queue that it stands in */
  struct candidate *candidates;  /* space for the largest window */
  uint32_t places[TIERS_MAX];    /* capacity in extents */
  uint32_t used[TIERS_MAX];      /* of these */
  struct queue queue[TIERS_MAX]; /* extents that should not be there */
  uint64_t first_item;           /* of the window */
  uint32_t items;                /* of the window */
  uint64_t moves_left;
  int64_t *record;
};

static bool is_in_order(const struct tk_migration_setup *setup, uint32_t window) {
  for (uint64_t item = setup->first_item[window]; item < setup->first_item[window + 1]; item++) {
    const bool is_first = item == setup->first_item[window];
    if (setup->extent[item] >= setup->extent_count || setup->reads[item] < 0 ||
        setup->writes[item] < 0 || (!is_first && setup->extent[item] <= setup->extent[item - 1]))
      return false;
  }
  return true;
}

static int check(struct migration *migration) {
  const struct tk_migration_setup *setup = &migration->setup;
  for (uint32_t window = 0; window < setup->window_count; window++) {
    const uint64_t first = setup->first_item[window];
    const uint64_t end = setup->first_item[window + 1];
    if (end < first || end - first > setup->extent_count || !is_in_order(setup, window))
      return -EINVAL;
    if (end - first > migration->widest)
      migration->widest = end - first;
  }
  return setup->first_item[0] == 0 ? 0 : -EINVAL;
}

int tk_migration_new(const struct tk_migration_setup *setup, struct migration **out) {
  struct migration *migration = calloc(1, sizeof *migration);
  if (migration == NULL)
    return -ENOMEM;
  migration->setup = *setup;
  int status = tier_set_init(&migration->tiers, setup->tiers, setup->tier_count);
  if (!status)
    status = check(migration);
  if (status)
    goto free_migration;
  status = -ENOMEM;
  const uint64_t items = setup->first_item[setup->window_count];
  migration->ranks = malloc((items + 1) * sizeof *migration->ranks);
  if (migration->ranks == NULL)
    goto free_migration;

  /* What each window would move is the same for all mixes: it is ranked once. */
  for (uint32_t window = 0; window < setup->window_count; window++) {
    const uint64_t first = setup->first_item[window];
    const uint32_t count = (uint32_t)(setup->first_item[window + 1] - first);
    tier_rank_items(&migration->tiers, setup->reads + first, setup->writes + first, count,
                    migration->ranks + first);
  }
  *out = migration;
  return 0;

free_migration:
  tk_migration_free(migration);
  return status;
}

void tk_migration_free(struct migration *migration) {
  if (migration == NULL)
    return;
  free(migration->ranks);
  free(migration);
}

static uint32_t extent_of(const struct run *run, uint32_t item) {
  return run->migration->setup.extent[run->first_item + item];
}

/* Returns what moving an extent saves in a window like this one, in us times amount. */
static double saving_of(const struct run *run, uint32_t extent, uint32_t from, uint32_t to) {
  if (run->item_of[extent] == NONE)
    return 0;
  const struct tk_migration_setup *setup = &run->migration->setup;
  const uint64_t item = run->first_item + run->item_of[extent];
  return tier_saving(&run->migration->tiers, from, to, setup->reads[item], setup->writes[item]);
}

static void append(struct run *run, uint32_t tier, uint32_t extent) {
  struct queue *queue = &run->queue[tier];
  run->after[extent] = NONE;
  if (queue->first == NONE)
    queue->first = extent;
  else
    run->after[queue->last] = extent;
  queue->last = extent;
}

/* Fills the tiers from the slowest up; returns -EINVAL when there is no space for all. */
static int begin(struct run *run, const uint32_t *places) {
  const struct migration *migration = run->migration;
  const uint32_t tiers = migration->tiers.count;
  memcpy(run->places, places, tiers * sizeof *places);
  memset(run->used, 0, sizeof run->used);
  uint32_t tier = tiers - 1;
  for (uint32_t extent = 0; extent < migration->setup.extent_count; extent++) {
    while (run->used[tier] == run->places[tier]) {
      if (tier == 0)
        return -EINVAL;
      tier--;
    }
    run->tier_of[extent] = (uint8_t)tier;
    run->used[tier]++;
  }
  return 0;
}

static void serve(struct run *run) {
  const struct tk_migration_setup *setup = &run->migration->setup;
  for (uint32_t item = 0; item < run->items; item++) {
    int64_t *values = run->record + (size_t)run->tier_of[extent_of(run, item)] * TIER_VALUES;
    values[READS] += setup->reads[run->first_item + item];
    values[WRITES] += setup->writes[run->first_item + item];
  }
}

/* Says where the extents of the window should be. */
static void want(struct run *run) {
  const struct tier_rank *ranks = run->migration->ranks + run->first_item;
  uint32_t left[TIERS_MAX];
  memcpy(left, run->places, sizeof left);
  for (uint32_t place = 0; place < run->items; place++) {
    const uint32_t extent = extent_of(run, ranks[place].item);
    run->wanted[extent] = (uint8_t)tier_take(&run->migration->tiers, &ranks[place], left);
    run->item_of[extent] = ranks[place].item;
  }
}

static void forget(struct run *run) {
  for (uint32_t item = 0; item < run->items; item++) {
    run->wanted[extent_of(run, item)] = NO_TIER;
    run->item_of[extent_of(run, item)] = NONE;
  }
}

static void queue_up(struct run *run) {
  const struct tier_rank *ranks = run->migration->ranks + run->first_item;
  for (uint32_t tier = 0; tier < run->migration->tiers.count; tier++)
    run->queue[tier] = (struct queue){NONE, NONE};
  for (uint32_t extent = 0; extent < run->migration->setup.extent_count; extent++) {
    if (run->item_of[extent] == NONE)
      append(run, run->tier_of[extent], extent);
  }
  for (uint32_t place = run->items; place-- > 0;) {
    const uint32_t extent = extent_of(run, ranks[place].item);
    if (run->tier_of[extent] != run->wanted[extent])
      append(run, run->tier_of[extent], extent);
  }
}

static int compare(const void *left, const void *right) {
  const struct candidate *a = left;
  const struct candidate *b = right;
  if (a->saving != b->saving)
    return a->saving > b->saving ? -1 : 1;
  return a->item < b->item ? -1 : a->item > b->item;
}

static uint32_t find_candidates(struct run *run) {
  uint32_t count = 0;
  for (uint32_t item = 0; item < run->items; item++) {
    const uint32_t extent = extent_of(run, item);
    const uint32_t from = run->tier_of[extent];
    const uint32_t to = run->wanted[extent];
    /* Even one that gains nothing yet: an exchange may move it to where it would. */
    if (from != to)
      run->candidates[count++] = (struct candidate){saving_of(run, extent, from, to), item};
  }
  if (count > 0)
    qsort(run->candidates, count, sizeof *run->candidates, compare);
  return count;
}

static void move(struct run *run, uint32_t extent, uint32_t to) {
  const uint32_t from = run->tier_of[extent];
  run->tier_of[extent] = (uint8_t)to;
  run->used[from]--;
  run->used[to]++;
  run->moves_left--;
  const bool is_demoted = to > from;
  run->record[from * TIER_VALUES + (is_demoted ? DEMOTED_OUT : PROMOTED_OUT)]++;
  run->record[to * TIER_VALUES + (is_demoted ? DEMOTED_IN : PROMOTED_IN)]++;
  run->record[run->migration->tiers.count * TIER_VALUES + is_demoted]++;
}

/* Returns the first extent that may leave the tier, or NONE; those that have left are dropped. */
static uint32_t first_to_leave(struct run *run, uint32_t tier) {
  struct queue *queue = &run->queue[tier];
  while (queue->first != NONE && run->tier_of[queue->first] != tier)
    queue->first = run->after[queue->first];
  return queue->first;
}

static void exchange(struct run *run, uint32_t extent, uint32_t other) {
  const uint32_t from = run->tier_of[extent];
  const uint32_t to = run->tier_of[other];
  run->queue[to].first = run->after[other];
  move(run, extent, to);
  move(run, other, from);
  if (run->wanted[other] != from)
    append(run, from, other);
}

/* Moves one extent where it should be, if that saves time; returns false when moves run out. */
static bool improve(struct run *run, uint32_t extent) {
  const uint32_t from = run->tier_of[extent];
  const uint32_t to = run->wanted[extent];
  const double saving = saving_of(run, extent, from, to);
  if (saving <= 0)
    return true;
  if (run->used[to] < run->places[to]) {
    if (run->moves_left < 1)
      return false;
    move(run, extent, to);
    return true;
  }
  const uint32_t other = first_to_leave(run, to);
  if (other == NONE || saving + saving_of(run, other, to, from) <= 0)
    return true;
  if (run->moves_left < 2)
    return false;
  exchange(run, extent, other);
  return true;
}

static void migrate(struct run *run) {
  want(run);
  queue_up(run);
  const uint32_t candidates = find_candidates(run);
  run->moves_left = run->migration->setup.window_moves;
  for (uint32_t next = 0; next < candidates; next++) {
    if (!improve(run, extent_of(run, run->candidates[next].item)))
      break;
  }
  forget(run);
}

/* Runs all windows; `windows` may be NULL. */
static void run_windows(struct run *run, int64_t *total, int64_t *windows) {
  const struct tk_migration_setup *setup = &run->migration->setup;
  const size_t values = MIGRATION_RECORD(setup->tier_count);
  int64_t own[MIGRATION_RECORD(TIERS_MAX)];
  memset(total, 0, values * sizeof *total);
  for (uint32_t window = 0; window < setup->window_count; window++) {
    run->record = windows != NULL ? windows + window * values : own;
    memset(run->record, 0, values * sizeof *total);
    run->first_item = setup->first_item[window];
    run->items = (uint32_t)(setup->first_item[window + 1] - run->first_item);
    serve(run);
    if (window + 1 < setup->window_count)
      migrate(run);
    for (size_t value = 0; value < values; value++)
      total[value] += run->record[value];
  }
}

static int make_room(struct run *run) {
  const size_t extents = (size_t)run->migration->setup.extent_count + 1;
  run->tier_of = malloc(extents);
  run->wanted = malloc(extents);
  run->item_of = malloc(extents * sizeof *run->item_of);
  run->after = malloc(extents * sizeof *run->after);
  run->candidates = malloc((run->migration->widest + 1) * sizeof *run->candidates);
  if (run->tier_of == NULL || run->wanted == NULL || run->item_of == NULL || run->after == NULL ||
      run->candidates == NULL)
    return -ENOMEM;
  memset(run->wanted, NO_TIER, extents);
  memset(run->item_of, 0xFF, extents * sizeof *run->item_of);
  return 0;
}

int tk_migration_run(const struct migration *migration, const uint32_t *places, uint64_t mixes,
                     int64_t *totals, int64_t *windows) {
  const uint32_t tiers = migration->tiers.count;
  const size_t values = MIGRATION_RECORD(tiers);
  struct run run = {.migration = migration};
  int status = make_room(&run);
  for (uint64_t mix = 0; !status && mix < mixes; mix++) {
    status = begin(&run, places + mix * tiers);
    if (!status)
      run_windows(&run, totals + mix * values, windows);
    if (windows != NULL)
      windows += values * migration->setup.window_count;
  }
  free(run.tier_of);
  free(run.wanted);
  free(run.item_of);
  free(run.after);
  free(run.candidates);
  return status;
}
