/* Turns requests as queued into requests as issued: merged requests join the one that carried
 * them, and requests leave in issue order. Holds only what is queued and not yet issued. */
#ifndef TRACEKIT_MODEL_ISSUE_QUEUE_H
#define TRACEKIT_MODEL_ISSUE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* A read or a write of consecutive sectors. */
struct issue_request {
  int64_t request_id; /* position in queue order */
  int64_t issue_ns;   /* since the trace start */
  int64_t sector;     /* first, of 512 bytes */
  int64_t sectors;    /* of 512 bytes, at least 1 */
  uint32_t device;    /* index */
  uint8_t role;       /* index */
  bool is_write;
  bool is_fua;
  bool is_meta;     /* file system metadata */
  bool is_preflush; /* a transfer that begins when a flush before it has ended */
};

struct issue_queue;

/* Makes an empty queue. Returns 0 or -ENOMEM. */
int issue_queue_new(struct issue_queue **queue);

/* Adds a request that was issued itself. Returns 0, -EEXIST when its id is pending already, or
 * -ENOMEM. */
int issue_queue_push(struct issue_queue *queue, const struct issue_request *request);

/* Joins `request` to the pending request `target_id`. Returns 0, or -ENOENT when that one is not
 * pending or does not touch it, so that the caller must count the request on its own. */
int issue_queue_merge(struct issue_queue *queue, int64_t target_id,
                      const struct issue_request *request);

/* Takes the earliest issued request, if it was issued before `now_ns`. Returns whether it did. */
bool issue_queue_pop(struct issue_queue *queue, int64_t now_ns, struct issue_request *request);

/* Frees the queue; NULL is fine. */
void issue_queue_free(struct issue_queue *queue);

#endif
