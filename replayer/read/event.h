/* What the files of the pairing share: one event, seen as the pairing sees it. */
#ifndef TRACEKIT_READ_EVENT_H
#define TRACEKIT_READ_EVENT_H

#include "read/pair.h"

struct event {
  const struct record *record;
  int64_t time_ns;  /* since the trace start */
  uint64_t sectors; /* bytes rounded up to whole sectors */
  uint32_t device;  /* index */
  uint8_t kind;     /* see struct open_request */
};

/* The key of the request that the event is about. */
static inline struct request_key event_key(const struct event *event, uint8_t states) {
  return (struct request_key){.device = event->device,
                              .pid = event->record->pid,
                              .sector = event->record->sector,
                              .sectors = event->sectors,
                              .kind = event->kind,
                              .states = states};
}

/* Sets a time that only the first event of its sort sets. */
static inline void event_stamp(int64_t *time_ns, int64_t now_ns) {
  if (*time_ns == NO_TIME)
    *time_ns = now_ns;
}

/* Q: appends a row. Any other event: appends a row without a queue time, for a request that was
 * never seen queued. Gives the request in `out`. Returns 0 or -ENOMEM. (queue.c) */
int queue_row(struct pairing *pairing, const struct event *event, uint32_t *out);

/* Handlers of one action each; 0 or -ENOMEM. */
int queue_event(struct pairing *pairing, const struct event *event);    /* Q, queue.c */
int remap_event(struct pairing *pairing, const struct event *event);    /* A, queue.c */
int split_event(struct pairing *pairing, const struct event *event);    /* X, queue.c */
int getrq_event(struct pairing *pairing, const struct event *event);    /* G, issue.c */
int insert_event(struct pairing *pairing, const struct event *event);   /* I, issue.c */
int merge_event(struct pairing *pairing, const struct event *event);    /* M and F, issue.c */
int issue_event(struct pairing *pairing, const struct event *event);    /* D, issue.c */
int requeue_event(struct pairing *pairing, const struct event *event);  /* R, issue.c */
int complete_event(struct pairing *pairing, const struct event *event); /* C, complete.c */

/* Empty flushes, which have no place on the device. (flush.c) */
void flush_queued(struct pairing *pairing, uint32_t request);
void flush_allocated(struct pairing *pairing, const struct event *event);
void flush_issued(struct pairing *pairing, const struct event *event);
void flush_device_done(struct pairing *pairing, const struct event *event);
void flush_completed(struct pairing *pairing, const struct event *event);

/* Counts a completion, the last of its request; one that may not be the last of one that is in the
 * kernel's count; and one of a flush that the kernel made. (row_end.c) */
void count_request(struct pairing *pairing, const struct event *event);
void count_perhaps(struct pairing *pairing, const struct event *event);
void count_device_flush(struct pairing *pairing, const struct event *event);

/* Takes one request off its row; the row is done with its last one. (row_end.c) */
void end_request_of_row(struct pairing *pairing, uint64_t request_id, uint32_t request);

/* Returns the error of a completion, 0 or -errno. (row_end.c) */
int32_t error_of(const struct record *record);

#endif
