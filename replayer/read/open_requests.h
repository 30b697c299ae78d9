/* Open requests: the table that finds the request of an event by its place on the device.
 *
 * A queued I/O is one request until it is split. Merged requests are found through their merge
 * target; all others are found by their first sector and by their end. */
#ifndef TRACEKIT_READ_OPEN_REQUESTS_H
#define TRACEKIT_READ_OPEN_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "read/rows.h"

/* States are bits, so that a search can name several. */
enum request_state {
  REQUEST_QUEUED = 1,    /* Q */
  REQUEST_ALLOCATED = 2, /* G */
  REQUEST_INSERTED = 4,  /* I, or R after a D */
  REQUEST_ISSUED = 8,    /* D */
  REQUEST_DRAINING = 16, /* its data is done, its closing flush is not */
  REQUEST_MERGED = 32,   /* part of another request */
  REQUEST_WAITING = REQUEST_QUEUED | REQUEST_ALLOCATED | REQUEST_INSERTED,
};

#define ANY_LENGTH UINT64_MAX

struct open_request {
  uint64_t row;   /* request_id, NO_ROW when its row has left the window */
  uint64_t begin; /* sectors [begin, end) that are still to be transferred, merged ones too */
  uint64_t end;
  uint64_t own_begin; /* sectors of the row itself */
  uint64_t own_end;
  int64_t flushed_ns; /* of an empty flush: the device flush that serves it was done; or NO_TIME */
  uint32_t device;    /* index */
  uint32_t pid;       /* of the queue event */
  uint32_t next_at_begin, next_at_end;   /* chains of the two tables; the first also of free ones */
  uint32_t first_child, last_child;      /* requests merged into this one, in order of merging */
  uint32_t next_child;                   /* chain of the merge target's children, or of flushes */
  uint32_t next_of_row, previous_of_row; /* the row's other requests */
  uint8_t kind;  /* direction and sort of operation: an event of another kind is another's */
  uint8_t state; /* enum request_state */
  bool has_closing_flush; /* its last completion carries no bytes */
  bool is_remainder;      /* what was left after a split, not seen since */
};

/* Embedded by its owner. */
struct open_requests {
  struct open_request *pool;
  uint32_t capacity, used; /* of the pool */
  uint32_t free_list;
  uint32_t linked;  /* requests in the tables */
  uint32_t buckets; /* of each table, a power of two */
  uint32_t *by_begin, *by_end;
};

/* What to look for. */
struct request_key {
  uint32_t device;
  uint32_t pid; /* preferred among several */
  uint64_t sector;
  uint64_t sectors; /* exact length or ANY_LENGTH */
  uint8_t kind;
  uint8_t states;
};

/* Prepares an empty table. Returns 0 or -ENOMEM; requests_close in both cases. */
int requests_open(struct open_requests *requests);
void requests_close(struct open_requests *requests);

/* Takes a zeroed request without children from the pool; not yet in the tables. Returns its index
 * or NO_REQUEST without memory. Pointers to requests are invalid afterwards. */
uint32_t requests_new(struct open_requests *requests);

/* Gives a request that is not in the tables back to the pool. */
void requests_free(struct open_requests *requests, uint32_t index);

/* Enters the request into the tables by its begin and end, or removes it. These must not change
 * while it is in them. Returns 0 or -ENOMEM. */
int requests_link(struct open_requests *requests, uint32_t index);
void requests_unlink(struct open_requests *requests, uint32_t index);

/* Finds the request that begins (ends) at key->sector, is of the kind and in one of the states, and
 * has the length if one is given. Of several, one of the same pid is taken, then the newest: if a
 * completion was lost, only its own request is wrong and not every later one at that place.
 * Returns NO_REQUEST if there is none. */
uint32_t requests_find(const struct open_requests *requests, const struct request_key *key);
uint32_t requests_find_end(const struct open_requests *requests, const struct request_key *key);

static inline struct open_request *requests_at(const struct open_requests *requests,
                                               uint32_t index) {
  return &requests->pool[index];
}

#endif
