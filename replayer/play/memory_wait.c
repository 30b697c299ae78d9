#include "play/memory_wait.h"

#include <string.h>

#include "play/clock.h"

#define COPIES 16U
#define PS_PER_NS 1000U

_Static_assert(TK_MEMORY_AT_POSITION == FILE_AT_POSITION, "the model has the plan's offsets");

void memory_wait_open(struct memory_wait *wait, const struct tk_slow_memory *memory) {
  static char both[2 * MEMORY_WAIT_BYTES];
  memset(both, 1, sizeof both);
  uint64_t best_ns = UINT64_MAX;
  for (unsigned i = 0; i < COPIES; i++) {
    uint64_t start_ns = clock_now_ns();
    memcpy(both, both + MEMORY_WAIT_BYTES, MEMORY_WAIT_BYTES);
    __asm__ volatile("" : : "r"(both) : "memory"); /* the copy is wanted */
    uint64_t took_ns = clock_now_ns() - start_ns;
    best_ns = took_ns < best_ns ? took_ns : best_ns;
  }
  *wait = (struct memory_wait){
      .memory = memory, .start_ns = clock_now_ns(), .copy_ps = best_ns * PS_PER_NS};
}

static void forget(struct memory_moved *moved, uint32_t handle) {
  for (unsigned i = 0; i < 2; i++) {
    if (moved->ways[i].handle == handle)
      moved->ways[i].end = 0;
  }
}

void memory_wait(struct memory_wait *wait, struct memory_moved *moved,
                 const struct file_record *record, int64_t result, uint64_t start_ns) {
  bool is_write = record->operation == FILE_WRITE;
  if (wait->memory == NULL)
    return;
  if (!is_write && record->operation != FILE_READ) {
    forget(moved, record->handle); /* closed, made durable, another file */
    return;
  }
  if (result <= 0)
    return;
  uint64_t copy_ns = (uint64_t)result * wait->copy_ps / MEMORY_WAIT_BYTES / PS_PER_NS;
  uint64_t begin_ns = clock_now_ns() - copy_ns;
  if (begin_ns < start_ns)
    begin_ns = start_ns;
  struct tk_memory_transfer transfer = {.start_ps = (begin_ns - wait->start_ns) * PS_PER_NS,
                                        .offset = record->offset,
                                        .bytes = (uint64_t)result,
                                        .handle = record->handle,
                                        .is_write = is_write};
  uint64_t end_ps =
      tk_slow_memory_end(wait->memory, &wait->busy_until_ps, &moved->ways[is_write], &transfer);
  uint64_t until_ns = wait->start_ns + end_ps / PS_PER_NS;
  while (clock_now_ns() < until_ns) {
    /* A processor that waits for memory does nothing else. */
  }
}
