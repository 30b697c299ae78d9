#include "play/deadlock_check.h"

#include <errno.h>
#include <stdlib.h>

/* How far a thread of the plan has come. */
struct progress {
  uint64_t done;    /* records of it that have ended */
  uint64_t wake_at; /* that many of them let one go on that waits; UINT64_MAX: none waits */
  uint64_t needed;  /* of the thread that it waits for: records that must end first */
  uint32_t waiting; /* first thread that waits for it, or FILE_NONE */
  uint32_t next;    /* that waits for the same one, or that may go on as well; or FILE_NONE */
};

struct walk {
  const struct file_plan *plan;
  uint32_t ready;           /* first thread that may go on, or FILE_NONE */
  uint32_t ended;           /* threads that came to their end */
  struct progress *threads; /* one a thread of the plan */
};

/* The thread goes on up to its end, or to a record that waits: then it joins those that wait. */
static void advance(struct walk *walk, uint32_t number) {
  const struct file_plan *plan = walk->plan;
  const struct file_thread *thread = &plan->threads[number];
  struct progress *progress = &walk->threads[number];
  for (; progress->done < thread->count; progress->done++) {
    uint32_t after = plan->records[thread->first + progress->done].after;
    if (after == FILE_NONE)
      continue;
    uint32_t other = file_plan_thread_of(plan, after);
    struct progress *awaited = &walk->threads[other];
    progress->needed = after - plan->threads[other].first + 1;
    if (awaited->done >= progress->needed)
      continue;
    progress->next = awaited->waiting;
    awaited->waiting = number;
    if (progress->needed < awaited->wake_at)
      awaited->wake_at = progress->needed;
    return;
  }
  walk->ended++;
}

/* Lets those go on that waited for what the thread has done. */
static void wake(struct walk *walk, struct progress *progress) {
  if (progress->done < progress->wake_at)
    return;
  progress->wake_at = UINT64_MAX;
  for (uint32_t *link = &progress->waiting; *link != FILE_NONE;) {
    uint32_t number = *link;
    struct progress *waiter = &walk->threads[number];
    if (waiter->needed > progress->done) {
      if (waiter->needed < progress->wake_at)
        progress->wake_at = waiter->needed;
      link = &waiter->next;
      continue;
    }
    *link = waiter->next;
    waiter->next = walk->ready;
    walk->ready = number;
  }
}

static uint32_t waiting_record(const struct walk *walk, uint32_t number) {
  return (uint32_t)(walk->plan->threads[number].first + walk->threads[number].done);
}

/* Returns a record of a circle: who follows the waits for as many steps as there are threads is in
 * one, since what waits for a thread that has ended goes on. */
static uint32_t find_circle(const struct walk *walk) {
  const struct file_plan *plan = walk->plan;
  uint32_t number = 0;
  while (walk->threads[number].done == plan->threads[number].count)
    number++;
  for (uint32_t i = 0; i < plan->thread_count; i++)
    number = file_plan_thread_of(plan, plan->records[waiting_record(walk, number)].after);
  return waiting_record(walk, number);
}

int deadlock_check(const struct file_plan *plan, uint32_t *record) {
  /* Threads that can go on are kept in a list, so that the check is linear in the waits. */
  struct walk walk = {.plan = plan, .ready = FILE_NONE};
  walk.threads = calloc(plan->thread_count, sizeof *walk.threads);
  if (walk.threads == NULL)
    return -ENOMEM;
  for (uint32_t i = plan->thread_count; i-- > 0; walk.ready = i)
    walk.threads[i] =
        (struct progress){.wake_at = UINT64_MAX, .waiting = FILE_NONE, .next = walk.ready};
  while (walk.ready != FILE_NONE) {
    uint32_t number = walk.ready;
    walk.ready = walk.threads[number].next;
    advance(&walk, number);
    wake(&walk, &walk.threads[number]);
  }
  int rc = walk.ended == plan->thread_count ? 0 : -ELOOP;
  if (rc != 0)
    *record = find_circle(&walk);
  free(walk.threads);
  return rc;
}
