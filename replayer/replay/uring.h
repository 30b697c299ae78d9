/* The raw io_uring: its system calls and the memory it shares with the kernel. One thread. */
#ifndef TRACEKIT_REPLAY_URING_H
#define TRACEKIT_REPLAY_URING_H

#include <linux/io_uring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uring {
  int fd;
  uint32_t setup_flags;       /* IORING_SETUP_*, as the kernel accepted them */
  uint32_t features;          /* IORING_FEAT_* */
  uint32_t tail;              /* submission entries filled so far; published by uring_enter */
  uint32_t entries;           /* size of the submission queue */
  uint32_t cq_mask;           /* size of the completion queue minus one */
  _Atomic uint32_t *sq_head;  /* moved by the kernel */
  _Atomic uint32_t *sq_tail;  /* moved by us */
  _Atomic uint32_t *sq_flags; /* IORING_SQ_* */
  _Atomic uint32_t *cq_head;  /* moved by us */
  _Atomic uint32_t *cq_tail;  /* moved by the kernel */
  struct io_uring_sqe *sqes;
  struct io_uring_cqe *cqes;
  void *rings;       /* mapping of both queues */
  size_t ring_bytes; /* of it */
};

/* Makes a ring for `entries` submissions and twice as many completions, with the fastest set-up
 * that the kernel accepts. Close with uring_close. Returns 0 or -errno; -ENOSYS when the kernel is
 * too old (before 5.11). */
int uring_open(struct uring *ring, uint32_t entries);

/* Returns how many submission entries are free. */
uint32_t uring_room(const struct uring *ring);

/* Returns a zeroed entry; there must be room. */
struct io_uring_sqe *uring_next_sqe(struct uring *ring);

/* Submits what was filled; waits for `wanted` completions until `until_ns` (0: does not wait).
 * Returns 0, also at the end of the time and after a signal, or -errno. */
int uring_enter(struct uring *ring, uint64_t until_ns, uint32_t wanted);

/* Returns whether the kernel has work that only uring_enter lets it finish. */
bool uring_needs_enter(const struct uring *ring);

/* Returns the oldest completion, NULL when there is none; uring_seen gives it back. */
const struct io_uring_cqe *uring_peek(const struct uring *ring);
void uring_seen(struct uring *ring);

/* io_uring_register(2). Returns its result or -errno. */
int uring_register(const struct uring *ring, unsigned operation, void *argument, unsigned count);

void uring_close(struct uring *ring);

#endif
