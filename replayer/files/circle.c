#include "files/circle.h"

#include <errno.h>
#include <stdlib.h>

/* How far a thread of the plan has come. */
struct place {
  uint64_t done;    /* records of it that have ended */
  uint64_t wake_at; /* that many of them let one go on that waits; UINT64_MAX: none waits */
  uint64_t needed;  /* of the thread that it waits for: records that must end first */
  uint32_t waiting; /* first thread that waits for it, or PLAN_NONE */
  uint32_t next;    /* that waits for the same one, or that may go on as well; or PLAN_NONE */
};

struct walk {
  const struct plan *plan;
  uint32_t ready; /* first thread that may go on, or PLAN_NONE */
  uint32_t ended; /* threads that came to their end */
  struct place *places;
};

/* The thread goes on up to its end, or to a record that waits: then it joins those that wait. */
static void advance(struct walk *walk, uint32_t number) {
  const struct plan *plan = walk->plan;
  const struct plan_thread *thread = &plan->threads[number];
  struct place *place = &walk->places[number];
  for (; place->done < thread->count; place->done++) {
    uint32_t after = plan->records[thread->first + place->done].after;
    if (after == PLAN_NONE)
      continue;
    uint32_t other = plan_thread_of(plan, after);
    struct place *awaited = &walk->places[other];
    place->needed = after - plan->threads[other].first + 1;
    if (awaited->done >= place->needed)
      continue;
    place->next = awaited->waiting;
    awaited->waiting = number;
    if (place->needed < awaited->wake_at)
      awaited->wake_at = place->needed;
    return;
  }
  walk->ended++;
}

/* Lets those go on that waited for what the thread has done. */
static void wake(struct walk *walk, struct place *place) {
  if (place->done < place->wake_at)
    return;
  place->wake_at = UINT64_MAX;
  for (uint32_t *link = &place->waiting; *link != PLAN_NONE;) {
    uint32_t number = *link;
    struct place *waiter = &walk->places[number];
    if (waiter->needed > place->done) {
      if (waiter->needed < place->wake_at)
        place->wake_at = waiter->needed;
      link = &waiter->next;
      continue;
    }
    *link = waiter->next;
    waiter->next = walk->ready;
    walk->ready = number;
  }
}

static uint32_t waiting_record(const struct walk *walk, uint32_t number) {
  return (uint32_t)(walk->plan->threads[number].first + walk->places[number].done);
}

/* Returns a record of a circle: who follows the waits for as many steps as there are threads is in
 * one, since what waits for a thread that has ended goes on. */
static uint32_t find_circle(const struct walk *walk) {
  const struct plan *plan = walk->plan;
  uint32_t number = 0;
  while (walk->places[number].done == plan->threads[number].count)
    number++;
  for (uint32_t i = 0; i < plan->thread_count; i++)
    number = plan_thread_of(plan, plan->records[waiting_record(walk, number)].after);
  return waiting_record(walk, number);
}

int circle_find(const struct plan *plan, uint32_t *record) {
  struct walk walk = {.plan = plan, .ready = PLAN_NONE};
  walk.places = calloc(plan->thread_count, sizeof *walk.places);
  if (walk.places == NULL)
    return -ENOMEM;
  for (uint32_t i = plan->thread_count; i-- > 0; walk.ready = i)
    walk.places[i] =
        (struct place){.wake_at = UINT64_MAX, .waiting = PLAN_NONE, .next = walk.ready};
  while (walk.ready != PLAN_NONE) {
    uint32_t number = walk.ready;
    walk.ready = walk.places[number].next;
    advance(&walk, number);
    wake(&walk, &walk.places[number]);
  }
  int rc = walk.ended == plan->thread_count ? 0 : -ELOOP;
  if (rc != 0)
    *record = find_circle(&walk);
  free(walk.places);
  return rc;
}
