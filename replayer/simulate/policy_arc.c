#include <errno.h>
#include <stdlib.h>

#include "simulate/large_pages.h"
#include "simulate/policy.h"

/* Megiddo and Modha, FAST 2003, with the names of the paper: T1 and T2 hold pages that were used
 * once and more often, B1 and B2 remember pages that left them, and the target for T1 follows the
 * list whose memory would have helped. */
enum place { NOWHERE, T1, T2, B1, B2, PLACES };

struct arc {
  struct page_list lists[PLACES];
  uint32_t capacity; /* c: pages in T1 and T2 */
  double target;     /* p: pages wanted in T1 */
  uint8_t *places;   /* of each page */
  struct page_links links[];
};

static int make(uint32_t pages, uint32_t capacity, void **state) {
  struct arc *arc = large_pages_alloc(sizeof *arc + pages * sizeof *arc->links);
  if (arc == NULL)
    return -ENOMEM;
  for (int place = 0; place < PLACES; place++)
    arc->lists[place] = PAGE_LIST_EMPTY;
  arc->capacity = capacity;
  arc->target = 0;
  arc->places = large_pages_zeroed(pages + 1ul);
  if (arc->places == NULL) {
    free(arc);
    return -ENOMEM;
  }
  *state = arc;
  return 0;
}

static void put(struct arc *arc, uint32_t page, enum place place) {
  arc->places[page] = (uint8_t)place;
  page_list_push(&arc->lists[place], arc->links, page);
}

static void take(struct arc *arc, uint32_t page) {
  page_list_remove(&arc->lists[arc->places[page]], arc->links, page);
  arc->places[page] = NOWHERE;
}

static void hit(void *state, uint32_t page, uint32_t next_use) {
  struct arc *arc = state;
  (void)next_use; /* the past decides */
  take(arc, page);
  put(arc, page, T2);
}

/* The paper's REPLACE; a cache with room, after a drop, gives nothing up. */
static uint32_t replace(struct arc *arc, int was_in_b2) {
  const uint32_t once = arc->lists[T1].count;
  if (once + arc->lists[T2].count < arc->capacity)
    return PAGE_NONE;
  const int is_over = once > arc->target || (was_in_b2 && once == arc->target);
  const int from_t1 = once > 0 && (is_over || arc->lists[T2].count == 0);
  const uint32_t victim = arc->lists[from_t1 ? T1 : T2].oldest;
  take(arc, victim);
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

/* Makes room for a page that nothing is known of. */
static uint32_t make_room(struct arc *arc) {
  const uint32_t l1 = arc->lists[T1].count + arc->lists[B1].count;
  const uint32_t l2 = arc->lists[T2].count + arc->lists[B2].count;
  if (l1 == arc->capacity) {
    if (arc->lists[T1].count < arc->capacity) {
      take(arc, arc->lists[B1].oldest);
      return replace(arc, 0);
    }
    const uint32_t victim = arc->lists[T1].oldest;
    take(arc, victim);
    return victim;
  }
  if (l1 + l2 < arc->capacity)
    return PAGE_NONE;
  if (l1 + l2 == 2 * arc->capacity && arc->lists[B2].count > 0)
    take(arc, arc->lists[B2].oldest);
  return replace(arc, 0);
}

static uint32_t admit(void *state, uint32_t page, uint32_t next_use) {
  struct arc *arc = state;
  const enum place place = arc->places[page];
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

static void free_arc(void *state) {
  struct arc *arc = state;
  if (arc == NULL)
    return;
  free(arc->places);
  free(arc);
}

static void expect(const void *state, uint32_t page) {
  const struct arc *arc = state;
  __builtin_prefetch(&arc->links[page], 1);
  __builtin_prefetch(&arc->places[page], 1);
}

const struct cache_policy policy_arc = {make, hit, admit, drop, free_arc, expect};
