#include "play/flow_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "play/condition.h"

#define WORD_BITS 64U
#define WAIT_NS 20000000U

int flow_files_open(struct flow_files *files, const struct file_plan *plan, uint32_t set) {
  const struct flow_set *members = &plan->flow.sets[set];
  memset(files, 0, sizeof *files);
  files->count = members->count;
  files->present = calloc((size_t)files->count / WORD_BITS + 1, sizeof *files->present);
  files->busy = calloc(files->count, sizeof *files->busy);
  files->open_count = calloc(files->count, sizeof *files->open_count);
  files->first_of_open = calloc((size_t)plan->thread_count + 1, sizeof *files->first_of_open);
  (void)pthread_mutex_init(&files->lock, NULL); /* cannot fail on Linux */
  condition_open(&files->idle);
  if (files->present == NULL || files->busy == NULL || files->open_count == NULL ||
      files->first_of_open == NULL)
    return -ENOMEM;
  for (uint32_t i = 0; i < files->count; i++)
    if (plan->files[plan->flow.members[members->first + i]].is_present)
      files->present[i / WORD_BITS] |= UINT64_C(1) << i % WORD_BITS;
  return 0;
}

void flow_files_close(struct flow_files *files) {
  if (files->count == 0)
    return;
  (void)pthread_cond_destroy(&files->idle); /* nobody waits any more */
  (void)pthread_mutex_destroy(&files->lock);
  free(files->first_of_open);
  free(files->open_count);
  free(files->busy);
  free(files->present);
  files->count = 0;
}

/* Returns the first file from `start` on that is there, or is not; `count` for none. */
static uint32_t next_of(const struct flow_files *files, uint32_t start, bool is_present) {
  for (uint32_t at = start; at < files->count; at = at / WORD_BITS * WORD_BITS + WORD_BITS) {
    uint64_t word = is_present ? files->present[at / WORD_BITS] : ~files->present[at / WORD_BITS];
    word &= UINT64_MAX << at % WORD_BITS;
    if (word == 0)
      continue;
    uint32_t found = at / WORD_BITS * WORD_BITS + (uint32_t)__builtin_ctzll(word);
    return found < files->count ? found : files->count;
  }
  return files->count;
}

static uint32_t around(const struct flow_files *files, uint32_t start, bool is_present) {
  uint32_t found = next_of(files, start, is_present);
  return found == files->count ? next_of(files, 0, is_present) : found;
}

static bool is_free(const struct flow_files *files, const struct flow_choice *choice,
                    uint32_t member) {
  return !files->busy[member] && !(choice->is_closed && files->open_count[member] > 0);
}

/* The rotor goes on from what it points at, busy or not. */
static enum flow_found look(struct flow_files *files, const struct flow_choice *choice,
                            uint32_t *member) {
  uint32_t *rotor = choice->is_present
                        ? &files->first_of_open[choice->is_indexed ? 0 : choice->start]
                        : &files->first_of_create;
  uint32_t start = choice->is_indexed ? choice->start : *rotor;
  uint32_t first = around(files, start, choice->is_present);
  if (first == files->count)
    return FLOW_EMPTY;
  uint32_t found = first;
  while (!is_free(files, choice, found)) {
    found = around(files, found + 1, choice->is_present);
    if (found == first)
      return FLOW_BUSY;
  }
  if (!choice->is_indexed)
    *rotor = first + 1;
  files->busy[found] = 1;
  *member = found;
  return FLOW_FOUND;
}

static void wait_for_idle(struct flow_files *files) {
  condition_wait(&files->idle, &files->lock, WAIT_NS);
}

enum flow_found flow_files_choose(struct flow_files *files, const struct flow_choice *choice,
                                  uint32_t *member) {
  (void)pthread_mutex_lock(&files->lock); /* of ours: cannot fail */
  enum flow_found found = look(files, choice, member);
  if (found == FLOW_BUSY) {
    wait_for_idle(files);
    found = look(files, choice, member);
  }
  (void)pthread_mutex_unlock(&files->lock);
  return found;
}

enum flow_found flow_files_take(struct flow_files *files, uint32_t member) {
  (void)pthread_mutex_lock(&files->lock);
  if (files->busy[member])
    wait_for_idle(files);
  enum flow_found found = files->busy[member] ? FLOW_BUSY : FLOW_FOUND;
  files->busy[member] = 1;
  (void)pthread_mutex_unlock(&files->lock);
  return found;
}

bool flow_files_is_open(struct flow_files *files, uint32_t member, uint32_t most) {
  (void)pthread_mutex_lock(&files->lock);
  bool is_open = files->open_count[member] > most;
  (void)pthread_mutex_unlock(&files->lock);
  return is_open;
}

void flow_files_give(struct flow_files *files, uint32_t member, struct flow_change change) {
  uint64_t bit = UINT64_C(1) << member % WORD_BITS;
  (void)pthread_mutex_lock(&files->lock);
  if (change.sets_present && change.is_present) {
    files->present[member / WORD_BITS] |= bit;
  } else if (change.sets_present) {
    files->present[member / WORD_BITS] &= ~bit;
    files->open_count[member] = 0;
  }
  files->open_count[member] += (uint32_t)change.opened;
  files->busy[member] = 0;
  (void)pthread_cond_broadcast(&files->idle);
  (void)pthread_mutex_unlock(&files->lock);
}

void flow_files_closed(struct flow_files *files, uint32_t member) {
  (void)pthread_mutex_lock(&files->lock);
  if (files->open_count[member] > 0)
    files->open_count[member]--;
  (void)pthread_cond_broadcast(&files->idle);
  (void)pthread_mutex_unlock(&files->lock);
}
