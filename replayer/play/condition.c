#include "play/condition.h"

#include <time.h>

#include "play/clock.h"

#define SECOND_NS 1000000000U

void condition_open(pthread_cond_t *condition) {
  pthread_condattr_t monotonic;
  (void)pthread_condattr_init(&monotonic); /* none of these can fail on Linux */
  (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  (void)pthread_cond_init(condition, &monotonic);
  (void)pthread_condattr_destroy(&monotonic);
}

void condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t most_ns) {
  uint64_t until_ns = clock_now_ns() + most_ns;
  struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND_NS),
                           .tv_nsec = (long)(until_ns % SECOND_NS)};
  (void)pthread_cond_timedwait(condition, lock, &until); /* late, woken or not is as good */
}
