/* A condition that threads wait for with a limit by the monotonic clock. */
#ifndef TRACEKIT_PLAY_CONDITION_H
#define TRACEKIT_PLAY_CONDITION_H

#include <pthread.h>
#include <stdint.h>

/* Makes one. Cannot fail on Linux; end it with pthread_cond_destroy. */
void condition_open(pthread_cond_t *condition);

/* Waits for up to `most_ns`; the caller has the lock, and looks again at what it waits for. */
void condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t most_ns);

#endif
