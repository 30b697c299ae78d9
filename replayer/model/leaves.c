#include "model/leaves.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HANDLE_BYTES 16 /* a handle counts these, so that 32 bits name 64 GiB */
#define MOST_BYTES ((size_t)UINT32_MAX * HANDLE_BYTES)

#define FIRST_SIZE_LOG2 10
/* 2^64 divided by the golden ratio: consecutive keys fall far apart (Knuth, vol. 3, 6.4). */
#define FIBONACCI UINT64_C(0x9e3779b97f4a7c15)

static size_t leaf_bytes(uint32_t capacity_log2) {
  size_t bytes = sizeof(struct leaf) + (sizeof(struct leaf_row) << capacity_log2);

  return (bytes + HANDLE_BYTES - 1) / HANDLE_BYTES * HANDLE_BYTES;
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

/* Makes space between the rows for the new blocks, from the highest block down so that no row is
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

static uint64_t table_length(const struct leaf_map *map) { return UINT64_C(1) << map->size_log2; }

static uint64_t home_of(const struct leaf_map *map, uint64_t key) {
  /* The fold keeps the high bits of the key in play, which the multiplication alone would lose. */
  return ((key ^ (key >> 32)) * FIBONACCI) >> (64 - map->size_log2);
}

static struct leaf_map_entry *probe(const struct leaf_map *map, uint64_t key) {
  uint64_t mask = table_length(map) - 1;
  uint64_t at = home_of(map, key);

  while (map->entries[at].is_used && map->entries[at].key != key)
    at = (at + 1) & mask;
  return &map->entries[at];
}

static int is_nearly_full(const struct leaf_map *map) {
  return (map->count + 1) * 4 > table_length(map) * 3;
}

int leaf_map_init(struct leaf_map *map) {
  map->count = 0;
  map->size_log2 = FIRST_SIZE_LOG2;
  map->entries = calloc(table_length(map), sizeof(*map->entries));
  return map->entries ? 0 : -ENOMEM;
}

void leaf_map_free(struct leaf_map *map) {
  free(map->entries);
  map->entries = NULL;
  map->count = 0;
}

void leaf_map_clear(struct leaf_map *map) {
  memset(map->entries, 0, leaf_map_bytes(map));
  map->count = 0;
}

struct leaf_map_entry *leaf_map_find(const struct leaf_map *map, uint64_t key) {
  struct leaf_map_entry *entry = probe(map, key);

  return entry->is_used ? entry : NULL;
}

static int grow(struct leaf_map *map) {
  struct leaf_map bigger = {.count = map->count, .size_log2 = map->size_log2 + 1};

  bigger.entries = calloc(table_length(&bigger), sizeof(*bigger.entries));
  if (!bigger.entries)
    return -ENOMEM;
  for (uint64_t i = 0; i < table_length(map); i++)
    if (map->entries[i].is_used)
      *probe(&bigger, map->entries[i].key) = map->entries[i];
  free(map->entries);
  *map = bigger;
  return 0;
}

struct leaf_map_entry *leaf_map_add(struct leaf_map *map, uint64_t key) {
  struct leaf_map_entry *entry;

  if (is_nearly_full(map) && grow(map)) {
    errno = ENOMEM;
    return NULL;
  }
  entry = probe(map, key);
  *entry = (struct leaf_map_entry){.key = key, .value = 0, .is_used = 1};
  map->count++;
  return entry;
}

size_t leaf_map_bytes(const struct leaf_map *map) {
  return (size_t)table_length(map) * sizeof(*map->entries);
}

size_t leaf_map_growth_bytes(const struct leaf_map *map) {
  return is_nearly_full(map) ? 2 * leaf_map_bytes(map) : 0;
}

void leaf_map_prefetch(const struct leaf_map *map, uint64_t key) {
  __builtin_prefetch(&map->entries[home_of(map, key)]);
}

static int by_key(const void *left, const void *right) {
  uint64_t a = ((const struct leaf_map_entry *)left)->key;
  uint64_t b = ((const struct leaf_map_entry *)right)->key;

  return (a > b) - (a < b);
}

void leaf_map_sort(struct leaf_map *map) {
  uint64_t used = 0;

  for (uint64_t i = 0; i < table_length(map); i++)
    if (map->entries[i].is_used)
      map->entries[used++] = map->entries[i];
  qsort(map->entries, used, sizeof(*map->entries), by_key);
}
