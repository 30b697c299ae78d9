#include "play/memory_wait.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "play/clock.h"

#define CALL_BYTES (64U << 10)
#define FILE_BYTES (32U << 20) /* more than a core's own caches */
#define PASSES 2U
#define PS_PER_NS 1000U

_Static_assert(TK_MEMORY_AT_POSITION == FILE_AT_POSITION, "the model has the plan's offsets");

/* How long one pass over the file takes; 0 where it cannot be had. */
static uint64_t pass_ns(int fd, char *bytes, bool is_write) {
  uint64_t start_ns = clock_now_ns();
  for (off_t at = 0; at < (off_t)FILE_BYTES; at += CALL_BYTES) {
    ssize_t moved = is_write ? pwrite(fd, bytes, CALL_BYTES, at) : pread(fd, bytes, CALL_BYTES, at);
    if (moved != (ssize_t)CALL_BYTES)
      return 0;
  }
  return clock_now_ns() - start_ns;
}

/* The quickest pass of each kind; the first one of writes makes the file's pages. */
static void measure_copies(struct memory_wait *wait, int fd, char *bytes) {
  memset(bytes, 1, CALL_BYTES);
  (void)pass_ns(fd, bytes, true);
  for (unsigned is_write = 0; is_write < 2; is_write++) {
    for (unsigned i = 0; i < PASSES; i++) {
      uint64_t took_ns = pass_ns(fd, bytes, is_write != 0);
      if (i == 0 || took_ns < wait->copy_ns[is_write])
        wait->copy_ns[is_write] = took_ns;
    }
  }
}

void memory_wait_open(struct memory_wait *wait, const struct tk_slow_memory *memory) {
  *wait = (struct memory_wait){.memory = memory};
  int fd = memfd_create("copies", MFD_CLOEXEC);
  char *bytes = malloc(CALL_BYTES);
  if (fd >= 0 && bytes)
    measure_copies(wait, fd, bytes);
  free(bytes);
  if (fd >= 0)
    (void)close(fd);
  wait->start_ns = clock_now_ns();
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
  uint64_t copy_ns = (uint64_t)result * wait->copy_ns[is_write] / FILE_BYTES;
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
