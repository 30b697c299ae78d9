/* When the kernel queued what the calling thread handed to it, by the thread's own events of the
 * tracepoint block_bio_queue. */
#ifndef TRACEKIT_PLAY_QUEUE_TIMES_H
#define TRACEKIT_PLAY_QUEUE_TIMES_H

#include <stdint.h>

struct queue_times;

/* Starts to record the calling thread, which alone may read; the caller frees it with
 * queue_times_close. Returns 0 or -errno: without the right to trace, or a kernel that does not
 * trace blocks. */
int queue_times_open(struct queue_times **out);

/* Stores the times of the events since the last call, values of clock_now_ns, the first `capacity`
 * of them. Returns how many it stored. */
uint32_t queue_times_read(struct queue_times *times, uint64_t *queued_ns, uint32_t capacity);

/* NULL is fine. */
void queue_times_close(struct queue_times *times);

#endif
