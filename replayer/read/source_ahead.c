#include "read/source_ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define BLOCKS 12u
#define BLOCK_RECORDS 4096u

struct source_ahead {
  struct source *source;
  const struct source_block *first;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t filled, emptied; /* blocks; by the lock */
  bool is_stopped;          /* the same */
  bool is_taken;            /* blocks[emptied % BLOCKS] is in use */
  struct source_block blocks[BLOCKS];
};

/* Waits for an empty block; returns false when stopped. */
static bool wait_for_empty(struct source_ahead *ahead) {
  (void)pthread_mutex_lock(&ahead->lock);
  while (ahead->filled - ahead->emptied == BLOCKS && !ahead->is_stopped)
    (void)pthread_cond_wait(&ahead->changed, &ahead->lock);
  bool goes_on = !ahead->is_stopped;
  (void)pthread_mutex_unlock(&ahead->lock);
  return goes_on;
}

static void *work(void *argument) {
  struct source_ahead *ahead = argument;
  const struct source_block *before = ahead->first;
  while (before->status > 0 && wait_for_empty(ahead)) {
    struct source_block *block = &ahead->blocks[ahead->filled % BLOCKS];
    source_fill(ahead->source, before, block);
    before = block;
    (void)pthread_mutex_lock(&ahead->lock);
    ahead->filled++;
    (void)pthread_cond_signal(&ahead->changed);
    (void)pthread_mutex_unlock(&ahead->lock);
  }
  return NULL;
}

/* No signal goes to the thread. */
static int start(struct source_ahead *ahead) {
  sigset_t all, before;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_BLOCK, &all, &before);
  int status = pthread_create(&ahead->thread, NULL, work, ahead);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

static void release(struct source_ahead *ahead) {
  for (unsigned i = 0; i < BLOCKS; i++)
    free(ahead->blocks[i].records);
  free(ahead);
}

struct source_ahead *source_ahead_start(struct source *source, const struct source_block *first) {
  struct source_ahead *ahead = calloc(1, sizeof(*ahead));
  if (!ahead)
    return NULL;
  bool has_memory = true;
  for (unsigned i = 0; i < BLOCKS; i++) {
    ahead->blocks[i].capacity = BLOCK_RECORDS;
    ahead->blocks[i].records = malloc(BLOCK_RECORDS * sizeof(struct record));
    has_memory = has_memory && ahead->blocks[i].records;
  }
  ahead->source = source;
  ahead->first = first;
  /* On Linux neither fails without attributes. */
  (void)pthread_mutex_init(&ahead->lock, NULL);
  (void)pthread_cond_init(&ahead->changed, NULL);
  if (has_memory && start(ahead) == 0)
    return ahead;
  release(ahead);
  return NULL;
}

const struct source_block *source_ahead_take(struct source_ahead *ahead) {
  (void)pthread_mutex_lock(&ahead->lock);
  ahead->emptied += ahead->is_taken;
  ahead->is_taken = true;
  (void)pthread_cond_signal(&ahead->changed);
  while (ahead->filled == ahead->emptied)
    (void)pthread_cond_wait(&ahead->changed, &ahead->lock);
  (void)pthread_mutex_unlock(&ahead->lock);
  return &ahead->blocks[ahead->emptied % BLOCKS];
}

void source_ahead_close(struct source_ahead *ahead) {
  if (!ahead)
    return;
  (void)pthread_mutex_lock(&ahead->lock);
  ahead->is_stopped = true;
  (void)pthread_cond_signal(&ahead->changed);
  (void)pthread_mutex_unlock(&ahead->lock);
  (void)pthread_join(ahead->thread, NULL); /* fails only for a thread that is not ours */
  release(ahead);
}
