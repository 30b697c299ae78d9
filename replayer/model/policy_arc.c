#include <errno.h>
#include <stdlib.h>

#include "model/page_ring.h"
#include "model/policy.h"

/* Megiddo and Modha, FAST 2003, with the names of the paper: T1 and T2 hold pages that were used
 * once and more often, B1 and B2 remember pages that left them, and the target for T1 follows the
 * list whose memory would have helped. */
enum place { T1 = PAGE_NOWHERE + 1, T2, B1, B2, PLACES };

/* A use puts the page at the end of T2 anew; pages leave other lists as well from the middle. */
#define STALE_PER_PAGE 2u

struct arc {
  struct page_ring lists[PLACES];
  struct page_state *pages;
  uint32_t capacity; /* c: pages in T1 and T2 */
  double target;     /* p: pages wanted in T1 */
};

static void free_arc(void *state) {
  struct arc *arc = state;
  if (arc == NULL)
    return;
  for (int place = T1; place < PLACES; place++)
    page_ring_free(&arc->lists[place]);
  free(arc);
}

static int make(struct page_state *pages, uint32_t count, uint32_t capacity, void **state) {
  struct arc *arc = calloc(1, sizeof *arc);
  if (arc == NULL)
    return -ENOMEM;
  int error = 0;
  arc->pages = pages;
  arc->capacity = capacity;

  for (uint8_t place = T1; place < PLACES && error == 0; place++) {
    /* Dropped pages leave T1 and T2, but not what is remembered: B2 may get as long as all. */
    const uint64_t most = place == B2 ? 2ul * capacity : capacity;
    const uint32_t bounded = most < count ? (uint32_t)most : count;
    error = page_ring_init(&arc->lists[place], place, bounded, STALE_PER_PAGE * bounded + 1);
  }
  if (error)
    free_arc(arc);
  else
    *state = arc;
  return error;
}

static void put(struct arc *arc, uint32_t page, enum place place) {
  page_ring_push(&arc->lists[place], arc->pages, page);
}

static void take(struct arc *arc, uint32_t page) {
  page_ring_remove(&arc->lists[arc->pages[page].place], arc->pages, page);
}

static uint32_t take_oldest(struct arc *arc, enum place place) {
  return page_ring_pop(&arc->lists[place], arc->pages);
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  struct arc *arc = state;
  (void)next_use; /* the past decides */
  take(arc, page);
  put(arc, page, T2);
}

/* The paper's REPLACE; a cache that is not full, after a drop, evicts nothing. */
static uint32_t replace(struct arc *arc, int was_in_b2) {
  const uint32_t once = arc->lists[T1].count;
  if (once + arc->lists[T2].count < arc->capacity)
    return PAGE_NONE;
  const int is_over = once > arc->target || (was_in_b2 && once == arc->target);
  const int from_t1 = once > 0 && (is_over || arc->lists[T2].count == 0);
  const uint32_t victim = take_oldest(arc, from_t1 ? T1 : T2);
  put(arc, victim, from_t1 ? B1 : B2);
  return victim;
}

/* Moves the target for a page of B1 or B2. */
static void adapt(struct arc *arc, enum place place) {
  const double b1 = arc->lists[B1].count;
  const double b2 = arc->lists[B2].count;
  if (place == B1) {
    arc->target += b1 >= b2 ? 1 : b2 / b1;
    if (arc->target > arc->capacity)
      arc->target = arc->capacity;
  } else {
    arc->target -= b2 >= b1 ? 1 : b1 / b2;
    if (arc->target < 0)
      arc->target = 0;
  }
}

/* Makes space for a page that is in no list. */
static uint32_t make_room(struct arc *arc) {
  const uint32_t l1 = arc->lists[T1].count + arc->lists[B1].count;
  const uint32_t l2 = arc->lists[T2].count + arc->lists[B2].count;
  if (l1 == arc->capacity) {
    if (arc->lists[T1].count < arc->capacity) {
      (void)take_oldest(arc, B1);
      return replace(arc, 0);
    }
    return take_oldest(arc, T1);
  }
  if (l1 + l2 < arc->capacity)
    return PAGE_NONE;
  if (l1 + l2 == 2 * arc->capacity && arc->lists[B2].count > 0)
    (void)take_oldest(arc, B2);
  return replace(arc, 0);
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct arc *arc = state;
  const enum place place = arc->pages[page].place;
  uint32_t victim;
  (void)next_use; /* as above */
  if (place == B1 || place == B2) {
    adapt(arc, place);
    victim = replace(arc, place == B2);
    take(arc, page);
    put(arc, page, T2);
  } else {
    victim = make_room(arc);
    put(arc, page, T1);
  }
  return victim;
}

static void drop(void *state, uint32_t page) { take(state, page); }

const struct cache_policy policy_arc = {make, hit, admit, drop, free_arc};
