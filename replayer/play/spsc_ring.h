/* Counts the blocks that one thread fills and another empties, in turn, without a lock. The blocks
 * themselves belong to the user of the ring. */
#ifndef TRACEKIT_PLAY_SPSC_RING_H
#define TRACEKIT_PLAY_SPSC_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct spsc_ring {
  _Alignas(64) _Atomic uint64_t filled;  /* blocks handed over so far */
  _Alignas(64) _Atomic uint64_t emptied; /* blocks given back so far */
  uint64_t mask;                         /* how many there are, a power of two, minus one */
};

/* Filling thread: returns whether a block is free; its index is *block. */
static inline bool spsc_ring_can_fill(const struct spsc_ring *ring, uint64_t *block) {
  uint64_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed);
  *block = filled & ring->mask;
  /* Acquire: the block's last reader has finished with it. */
  return filled - atomic_load_explicit(&ring->emptied, memory_order_acquire) <= ring->mask;
}

/* Filling thread: returns whether another block is free beside the one that is being filled. */
static inline bool spsc_ring_has_next(const struct spsc_ring *ring) {
  uint64_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed);
  return filled - atomic_load_explicit(&ring->emptied, memory_order_acquire) < ring->mask;
}

/* Filling thread: hands the block over; release makes its content visible to the other side. */
static inline void spsc_ring_fill(struct spsc_ring *ring) {
  uint64_t filled = atomic_load_explicit(&ring->filled, memory_order_relaxed);
  atomic_store_explicit(&ring->filled, filled + 1, memory_order_release);
}

/* Emptying thread: returns whether a block is waiting; its index is *block. */
static inline bool spsc_ring_can_empty(const struct spsc_ring *ring, uint64_t *block) {
  uint64_t emptied = atomic_load_explicit(&ring->emptied, memory_order_relaxed);
  *block = emptied & ring->mask;
  return atomic_load_explicit(&ring->filled, memory_order_acquire) != emptied;
}

/* Emptying thread: gives the block back. */
static inline void spsc_ring_empty(struct spsc_ring *ring) {
  uint64_t emptied = atomic_load_explicit(&ring->emptied, memory_order_relaxed);
  atomic_store_explicit(&ring->emptied, emptied + 1, memory_order_release);
}

#endif
