/* A bounded queue of slot numbers for any number of threads on both ends, without locks
 * (D. Vyukov's bounded MPMC queue). */
#ifndef TRACEKIT_PLAY_MPMC_QUEUE_H
#define TRACEKIT_PLAY_MPMC_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct ring;

/* Makes a queue for at least `capacity` numbers; NULL with errno on failure. Free with
 * mpmc_queue_free.
 */
struct ring *mpmc_queue_new(uint32_t capacity);

/* Appends a number. Returns false when the queue is full. Any thread. */
bool mpmc_queue_push(struct ring *ring, uint32_t number);

/* Takes the oldest number. Returns false when the queue is empty. Any thread. */
bool mpmc_queue_pop(struct ring *ring, uint32_t *number);

/* NULL is fine. No thread may use the queue any more. */
void mpmc_queue_free(struct ring *ring);

#endif
