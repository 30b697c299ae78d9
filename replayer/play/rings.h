/* Rings of io_uring that a process shows, and what shows that it has another one. */
#ifndef TRACEKIT_PLAY_RINGS_H
#define TRACEKIT_PLAY_RINGS_H

#include <stdbool.h>
#include <stdint.h>

#define RINGS_MAX 256U

/* Numbers, each once. */
struct rings_set {
  uint64_t numbers[RINGS_MAX];
  uint32_t count;
};

/* What the kernel reports of a ring with a descriptor. */
struct rings_report {
  uint64_t poller; /* the thread that polls for it; 0: none */
  bool is_unused;  /* nothing was ever requested or completed */
};

/* Of one process. Older kernels give all rings one inode. */
struct rings {
  struct rings_set held;    /* inodes of those with a descriptor */
  struct rings_set mapped;  /* inodes of those whose descriptor may be closed */
  struct rings_set pollers; /* threads that poll for those with a descriptor */
  struct rings_set threads; /* threads that poll for any */
  bool is_used;             /* one with a descriptor was */
  bool has_users;           /* a thread works for one, or waits in one that is registered */
};

/* Forgets all. */
void rings_clear(struct rings *rings);

/* Adds a ring with a descriptor. */
void rings_add_held(struct rings *rings, uint64_t inode, const struct rings_report *report);

/* Adds a ring that is mapped. */
void rings_add_mapped(struct rings *rings, uint64_t inode);

/* Adds what `thread` does for rings: `task` is its open folder in /proc. */
void rings_add_thread(struct rings *rings, int task, uint64_t thread);

/* Returns whether a ring has no descriptor, or there are too many to know. One in memory of its own
 * that is registered is not seen while it is idle, nor beside others that were used, unless a
 * thread polls for it alone. */
bool rings_have_hidden(const struct rings *rings);

#endif
