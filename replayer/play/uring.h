/* The raw io_uring: its system calls and the memory it shares with the kernel. One thread. */
#ifndef TRACEKIT_PLAY_URING_H
#define TRACEKIT_PLAY_URING_H

#include <linux/io_uring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "play/uring_modes.h"

struct uring {
  int fd;
  int enter_fd;               /* what io_uring_enter gets: fd, or its place in the thread's table */
  uint32_t enter_flags;       /* IORING_ENTER_REGISTERED_RING if it is that place */
  uint32_t setup_flags;       /* IORING_SETUP_*, as the kernel accepted them */
  uint32_t features;          /* IORING_FEAT_* */
  uint32_t tail;              /* submission entries filled so far; published by uring_enter */
  uint32_t entries;           /* size of the submission queue */
  uint32_t in_flight;         /* entries filled whose completion was not given back */
  uint64_t wakes;             /* times that the kernel's thread had to be woken */
  uint64_t refused;           /* calls that the kernel refused for the moment */
  uint64_t refused_since_ns;  /* clock: all since then were; 0: the last one was not */
  uint32_t cq_mask;           /* size of the completion queue minus one */
  _Atomic uint32_t *sq_head;  /* moved by the kernel */
  _Atomic uint32_t *sq_tail;  /* moved by us */
  _Atomic uint32_t *sq_flags; /* IORING_SQ_* */
  _Atomic uint32_t *cq_head;  /* moved by us */
  _Atomic uint32_t *cq_tail;  /* moved by the kernel */
  uint32_t shift;             /* 1: entries are twice as long */
  struct io_uring_sqe *sqes;
  struct io_uring_cqe *cqes;
  void *rings;       /* mapping of both queues */
  size_t ring_bytes; /* of it */
};

/* Makes a ring for `entries` submissions and twice as many completions, with the fastest set-up
 * that the kernel accepts for these modes. Close with uring_close. Returns 0 or -errno; -ENOSYS
 * when the kernel is too old (before 5.11), -EINVAL when it rejects the modes. */
int uring_open(struct uring *ring, uint32_t entries, const struct uring_modes *modes);

/* Returns how many submission entries are free, and how many the kernel has not taken yet. */
uint32_t uring_room(const struct uring *ring);
uint32_t uring_waiting(const struct uring *ring);

/* Returns a zeroed entry, of twice the size in a wide ring; there must be space. Each has one
 * completion. */
struct io_uring_sqe *uring_next_sqe(struct uring *ring);

/* Submits what was filled and lets the kernel do what only a call lets it do: it polls, and posts
 * completions. Does not wait, and makes no call that is not needed. Returns 0 or -errno: -EAGAIN or
 * -EBUSY when the kernel has refused every call for a second. */
int uring_go(struct uring *ring);

/* The same, then sleeps for `wanted` completions until `until_ns`. The ring must be one that
 * can sleep. Returns 0, also at the end of the time and after a signal, or -errno. */
int uring_wait(struct uring *ring, uint64_t until_ns, uint32_t wanted);

/* Returns whether a completion ends a sleep: not when it must be looked for by this thread. */
bool uring_can_sleep(const struct uring *ring);

/* Returns the oldest completion, NULL when there is none; uring_seen gives it back. */
const struct io_uring_cqe *uring_peek(const struct uring *ring);
void uring_seen(struct uring *ring);

/* io_uring_register(2). Returns its result or -errno. */
int uring_register(const struct uring *ring, unsigned operation, void *argument, unsigned count);

void uring_close(struct uring *ring);

#endif
