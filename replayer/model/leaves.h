/* Leaves: the touched blocks among 64 neighbours, in one small piece of memory that grows.
 *
 * A leaf is a bitmap of the blocks that it holds and their rows in block order, so that the rows of
 * consecutive blocks lie side by side and a long request costs one search, not one a block; and a
 * block that was touched alone still costs 64 bytes. All leaves live in one reserved address
 * range that is only committed as it is used, and are named by 32-bit handles. */
#ifndef TRACEKIT_MODEL_LEAVES_H
#define TRACEKIT_MODEL_LEAVES_H

#include <stddef.h>
#include <stdint.h>

#define LEAF_BLOCKS_LOG2 6
#define LEAF_BLOCKS (1 << LEAF_BLOCKS_LOG2)
#define LEAF_CLASSES (LEAF_BLOCKS_LOG2 + 1)

/* What is known of one 4 KiB block. */
struct leaf_row {
  int64_t first_ns;      /* first access, from the trace's start */
  int64_t last_ns;       /* last access */
  int64_t last_write_ns; /* last write, where there is one */
  uint32_t reads;        /* requests that read some of it */
  uint32_t writes;       /* requests that wrote some of it */
  uint32_t window;       /* index of the last window in which it was touched */
  uint8_t sectors;       /* bit i: 512-byte sector i was touched */
  uint8_t role;          /* of the first request that touched it */
  uint8_t is_mixed;      /* 1 when requests of another role touched it too */
  uint8_t last_access;   /* what it was; model/volume.c says how */
};

struct leaf {
  uint64_t bitmap;        /* bit i: block i of the leaf has a row */
  uint32_t capacity_log2; /* binary logarithm of the rows that fit */
  uint32_t next_free;     /* handle of the next leaf of this size on the free list */
  struct leaf_row rows[]; /* one for each set bit, in the order of the bits */
};

struct leaves {
  unsigned char *memory;       /* `reserved_bytes` of address range */
  size_t reserved_bytes;       /* the most that leaves can take */
  size_t used_bytes;           /* from the start of `memory`, leaves on the free lists included */
  uint32_t free[LEAF_CLASSES]; /* heads of the free lists by capacity, 0 for none */
};

/* Reserves the address range, 64 GiB at most. Returns 0 or -ENOMEM. */
int leaves_init(struct leaves *leaves, size_t reserved_bytes);

/* Gives the address range back; a zeroed `leaves` is fine. */
void leaves_free(struct leaves *leaves);

/* Forgets all leaves and keeps the memory. */
void leaves_clear(struct leaves *leaves);

/* Returns the leaf of a handle; valid until that leaf is covered. */
struct leaf *leaves_at(const struct leaves *leaves, uint32_t handle);

/* Gives every block of `blocks` (a bitmap) a row, moving the leaf when it must grow; rows that are
 * new are all zero. `handle` 0 makes a leaf. `limit_bytes` bounds `used_bytes`. Returns the leaf's
 * handle, or 0 when there is no space: the leaf is then unchanged. */
uint32_t leaves_cover(struct leaves *leaves, uint32_t handle, uint64_t blocks, size_t limit_bytes);

/* Returns the place of block `index` (0 to 63) among the leaf's rows. */
unsigned leaf_place(const struct leaf *leaf, unsigned index);

/* A hash map from the 64-bit key of a leaf (a group of neighbouring blocks) to a 32-bit value.
 *
 * Open addressing in one array of 16-byte entries that doubles when it is three quarters full, so
 * that a probe costs one cache line. A caller with a memory budget asks for the price of the next
 * addition first. Not thread-safe: one map belongs to one thread at a time. */
struct leaf_map_entry {
  uint64_t key;     /* any value */
  uint32_t value;   /* the caller's */
  uint32_t is_used; /* 0 in an empty entry */
};

struct leaf_map {
  struct leaf_map_entry *entries; /* 1 << size_log2 of them */
  uint64_t count;                 /* entries in use */
  uint32_t size_log2;             /* binary logarithm of the table's length */
};

/* Makes an empty map. Returns 0 or -ENOMEM. */
int leaf_map_init(struct leaf_map *map);

/* Frees the table; a zeroed or freed map is fine. */
void leaf_map_free(struct leaf_map *map);

/* Forgets every entry and keeps the table's memory. Also makes a sorted map usable again. */
void leaf_map_clear(struct leaf_map *map);

/* Returns the entry of `key`, or NULL. It is valid until the next addition. */
struct leaf_map_entry *leaf_map_find(const struct leaf_map *map, uint64_t key);

/* Returns a new entry with value 0 for a key that the map does not hold, or NULL with errno
 * ENOMEM. Pointers to other entries are invalid afterwards. */
struct leaf_map_entry *leaf_map_add(struct leaf_map *map, uint64_t key);

/* Returns the bytes that the table takes now. */
size_t leaf_map_bytes(const struct leaf_map *map);

/* Returns the bytes that the next addition allocates: 0, or those of the doubled table, which
 * exists beside the present one while the entries move. */
size_t leaf_map_growth_bytes(const struct leaf_map *map);

/* Brings the cache line in which the search for `key` starts closer. */
void leaf_map_prefetch(const struct leaf_map *map, uint64_t key);

/* Moves the used entries to the front of `entries`, by ascending key. Only leaf_map_clear and
 * leaf_map_free may follow. */
void leaf_map_sort(struct leaf_map *map);

#endif
