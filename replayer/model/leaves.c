#include "model/leaves.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define HANDLE_BYTES 16 /* a handle counts these, so that 32 bits name 64 GiB */
#define MOST_BYTES ((size_t)UINT32_MAX * HANDLE_BYTES)

static size_t leaf_bytes(uint32_t capacity_log2) {
  return sizeof(struct leaf) + (sizeof(struct leaf_row) << capacity_log2);
}

int leaves_init(struct leaves *leaves, size_t reserved_bytes) {
  void *memory;

  if (reserved_bytes > MOST_BYTES)
    reserved_bytes = MOST_BYTES;
  memory = mmap(NULL, reserved_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return -ENOMEM;
  /* Large pages halve the time of random accesses; a kernel without them works as well. */
  (void)madvise(memory, reserved_bytes, MADV_HUGEPAGE);
  leaves->memory = memory;
  leaves->reserved_bytes = reserved_bytes;
  leaves_clear(leaves);
  return 0;
}

void leaves_free(struct leaves *leaves) {
  /* An unmapped range of our own cannot fail to be unmapped. */
  if (leaves->memory)
    (void)munmap(leaves->memory, leaves->reserved_bytes);
  leaves->memory = NULL;
}

void leaves_clear(struct leaves *leaves) {
  memset(leaves->free, 0, sizeof(leaves->free));
  leaves->used_bytes = HANDLE_BYTES; /* handle 0 means none */
}

struct leaf *leaves_at(const struct leaves *leaves, uint32_t handle) {
  return (struct leaf *)(leaves->memory + (size_t)handle * HANDLE_BYTES);
}

static uint32_t take(struct leaves *leaves, uint32_t capacity_log2, size_t limit_bytes) {
  size_t bytes = leaf_bytes(capacity_log2);
  uint32_t handle = leaves->free[capacity_log2];

  if (handle) {
    leaves->free[capacity_log2] = leaves_at(leaves, handle)->next_free;
  } else {
    if (limit_bytes > leaves->reserved_bytes)
      limit_bytes = leaves->reserved_bytes;
    if (leaves->used_bytes + bytes > limit_bytes)
      return 0;
    handle = (uint32_t)(leaves->used_bytes / HANDLE_BYTES);
    leaves->used_bytes += bytes;
  }
  leaves_at(leaves, handle)->bitmap = 0;
  leaves_at(leaves, handle)->capacity_log2 = capacity_log2;
  return handle;
}

static void give(struct leaves *leaves, uint32_t handle) {
  struct leaf *leaf = leaves_at(leaves, handle);

  leaf->next_free = leaves->free[leaf->capacity_log2];
  leaves->free[leaf->capacity_log2] = handle;
}

/* Makes room between the rows for the new blocks, from the highest block down so that no row is
 * overwritten before it has moved, and stops where nothing below moves. */
static void spread(struct leaf *leaf, uint64_t blocks) {
  uint64_t old = leaf->bitmap;
  uint64_t all = old | blocks;
  int from = __builtin_popcountll(old);
  int to = __builtin_popcountll(all);

  leaf->bitmap = all;
  while (to > from) {
    uint64_t bit = UINT64_C(1) << (63 - __builtin_clzll(all));

    to--;
    if (old & bit)
      leaf->rows[to] = leaf->rows[--from];
    else
      memset(&leaf->rows[to], 0, sizeof(leaf->rows[to]));
    all ^= bit;
  }
}

static uint32_t capacity_for(int rows) {
  return rows <= 1 ? 0 : (uint32_t)(32 - __builtin_clz((unsigned)rows - 1));
}

uint32_t leaves_cover(struct leaves *leaves, uint32_t handle, uint64_t blocks, size_t limit_bytes) {
  uint64_t old = handle ? leaves_at(leaves, handle)->bitmap : 0;
  uint32_t capacity_log2 = capacity_for(__builtin_popcountll(old | blocks));
  uint32_t moved;

  if (!handle || capacity_log2 > leaves_at(leaves, handle)->capacity_log2) {
    moved = take(leaves, capacity_log2, limit_bytes);
    if (!moved)
      return 0;
    if (handle) {
      struct leaf *leaf = leaves_at(leaves, moved);

      memcpy(leaf->rows, leaves_at(leaves, handle)->rows,
             (size_t)__builtin_popcountll(old) * sizeof(leaf->rows[0]));
      leaf->bitmap = old;
      give(leaves, handle);
    }
    handle = moved;
  }
  spread(leaves_at(leaves, handle), blocks);
  return handle;
}

unsigned leaf_place(const struct leaf *leaf, unsigned index) {
  return (unsigned)__builtin_popcountll(leaf->bitmap & ((UINT64_C(1) << index) - 1));
}
