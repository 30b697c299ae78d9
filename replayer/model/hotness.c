#include "model/hotness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/leaves.h"

#define SECTOR_BYTES 512
#define BLOCK_SECTORS_LOG2 3
#define BLOCK_SECTORS (1 << BLOCK_SECTORS_LOG2)
#define DEVICE_SHIFT 48             /* of a key; below it is the number of the leaf on its device */
#define NO_WINDOW UINT32_MAX        /* a block's window before it has one */
#define MAX_LENGTH_BYTES UINT32_MAX /* of a request: block layers count its bytes in 32 bits */
/* The place beyond which a device's leaves would not fit into a key: 64 EiB. */
#define MAX_SECTOR (INT64_C(1) << (DEVICE_SHIFT + LEAF_BLOCKS_LOG2 + BLOCK_SECTORS_LOG2))
/* How many requests before its turn a request's entry, leaf and rows are fetched from memory: each
 * step needs the one before, and all three are cache misses in a large table. */
#define ENTRY_DISTANCE 24
#define LEAF_DISTANCE 16
#define ROW_DISTANCE 8
#define CACHE_LINE_BYTES 64
#define ROW_LINES 4

struct hotness {
  struct leaf_map map;   /* key of a leaf to its handle */
  struct leaves leaves;  /* the blocks */
  uint64_t *distinct;    /* by window and role */
  uint64_t *fresh;       /* by window and role */
  size_t cells;          /* length of both */
  uint64_t budget_bytes; /* for map and leaves together */
  uint64_t first_key;    /* of the range */
  uint64_t last_key;     /* of the range, itself included */
  uint64_t requests;     /* reads and writes that counted */
  uint64_t impossible;   /* reads and writes that cannot be */
  uint64_t exported;     /* leaves that have left */
  int64_t clock_ns;      /* latest time seen, 0 at first */
  int64_t window_ns;
  uint32_t window_count;
  uint32_t role_count;
  int is_sorted; /* 1 when the map is sorted for export */
  struct volumes volumes;
};

/* One request on its way through the leaves that it touches. */
struct touch {
  uint64_t first_sector;
  uint64_t end_sector; /* behind the last */
  int64_t time_ns;
  int64_t known_ns; /* the same, or HOTNESS_NO_TIME */
  struct volume *volume;
  uint32_t window;
  uint8_t role;
  uint8_t is_write;
};

int tk_hotness_new(uint64_t budget_bytes, int64_t window_ns, uint32_t window_count,
                   uint32_t role_count, struct hotness **out) {
  struct hotness *hotness;
  int status = -ENOMEM;

  if (budget_bytes < HOTNESS_MIN_BUDGET_BYTES || window_ns <= 0 || !window_count || !role_count ||
      role_count > UINT8_MAX)
    return -EINVAL;
  hotness = calloc(1, sizeof(*hotness));
  if (!hotness)
    return -ENOMEM;
  hotness->budget_bytes = budget_bytes;
  hotness->window_ns = window_ns;
  hotness->window_count = window_count;
  hotness->role_count = role_count;
  hotness->cells = (size_t)window_count * role_count;
  hotness->distinct = calloc(hotness->cells, sizeof(*hotness->distinct));
  hotness->fresh = calloc(hotness->cells, sizeof(*hotness->fresh));
  if (!hotness->distinct || !hotness->fresh)
    goto free_all;
  status = leaf_map_init(&hotness->map);
  if (!status)
    status = leaves_init(&hotness->leaves, budget_bytes);
  if (status)
    goto free_all;
  tk_hotness_range(hotness, 0, UINT64_MAX);
  *out = hotness;
  return 0;

free_all:
  tk_hotness_free(hotness);
  return status;
}

void tk_hotness_free(struct hotness *hotness) {
  if (!hotness)
    return;
  leaves_free(&hotness->leaves);
  leaf_map_free(&hotness->map);
  volumes_free(&hotness->volumes);
  free(hotness->fresh);
  free(hotness->distinct);
  free(hotness);
}

void tk_hotness_range(struct hotness *hotness, uint64_t first_key, uint64_t last_key) {
  hotness->first_key = first_key;
  hotness->last_key = last_key;
  hotness->requests = 0;
  hotness->impossible = 0;
  hotness->exported = 0;
  hotness->clock_ns = 0;
  hotness->is_sorted = 0;
  leaf_map_clear(&hotness->map);
  leaves_clear(&hotness->leaves);
  memset(hotness->distinct, 0, hotness->cells * sizeof(*hotness->distinct));
  memset(hotness->fresh, 0, hotness->cells * sizeof(*hotness->fresh));
  volumes_clear(&hotness->volumes);
}

uint64_t tk_hotness_key(uint16_t device, uint64_t block) {
  return (uint64_t)device << DEVICE_SHIFT | block >> LEAF_BLOCKS_LOG2;
}

/* Makes space for `blocks` in the leaf of `key`. Returns the leaf, or NULL when the budget is used
 * up, which may leave the leaf's map entry behind: the caller starts the range again. */
static struct leaf *cover(struct hotness *hotness, uint64_t key, uint64_t blocks) {
  struct leaf_map_entry *entry = leaf_map_find(&hotness->map, key);
  size_t map_bytes = leaf_map_bytes(&hotness->map);

  if (!entry) {
    size_t growth_bytes = leaf_map_growth_bytes(&hotness->map);

    if (map_bytes + growth_bytes + hotness->leaves.used_bytes > hotness->budget_bytes)
      return NULL;
    entry = leaf_map_add(&hotness->map, key);
    if (!entry)
      return NULL;
    map_bytes = leaf_map_bytes(&hotness->map);
  } else {
    struct leaf *leaf = leaves_at(&hotness->leaves, entry->value);

    if (!(blocks & ~leaf->bitmap))
      return leaf;
  }
  entry->value = leaves_cover(&hotness->leaves, entry->value, blocks,
                              (size_t)hotness->budget_bytes - map_bytes);
  return entry->value ? leaves_at(&hotness->leaves, entry->value) : NULL;
}

static uint8_t sectors_within(const struct touch *touch, uint64_t block) {
  uint64_t start = block << BLOCK_SECTORS_LOG2;
  unsigned from = touch->first_sector > start ? (unsigned)(touch->first_sector - start) : 0;
  unsigned to = touch->end_sector - start < BLOCK_SECTORS ? (unsigned)(touch->end_sector - start)
                                                          : BLOCK_SECTORS;

  return (uint8_t)((1U << to) - (1U << from));
}

/* Counts the request for one block. Returns 0, or 1 when the count is at its end. */
static int record(struct hotness *hotness, struct leaf_row *row, const struct touch *touch,
                  uint8_t sectors) {
  uint32_t *count = touch->is_write ? &row->writes : &row->reads;
  size_t cell;

  volume_access(touch->volume, row, touch->is_write, touch->known_ns);
  if (!(row->reads | row->writes)) {
    row->first_ns = touch->time_ns;
    row->last_ns = touch->time_ns;
    row->role = touch->role;
    row->window = NO_WINDOW;
    hotness->fresh[(size_t)touch->window * hotness->role_count + row->role]++;
  }
  cell = (size_t)touch->window * hotness->role_count + row->role;
  hotness->distinct[cell] += row->window != touch->window;
  row->window = touch->window;
  row->first_ns = touch->time_ns < row->first_ns ? touch->time_ns : row->first_ns;
  row->last_ns = touch->time_ns > row->last_ns ? touch->time_ns : row->last_ns;
  row->sectors |= sectors;
  row->is_mixed |= row->role != touch->role;
  return ++*count == UINT32_MAX;
}

/* Counts the blocks first..last, all of one leaf. */
static int record_run(struct hotness *hotness, const struct touch *touch, uint64_t key,
                      uint64_t first, uint64_t last) {
  unsigned low = (unsigned)(first % LEAF_BLOCKS);
  unsigned high = (unsigned)(last % LEAF_BLOCKS);
  uint64_t blocks = (UINT64_MAX >> (LEAF_BLOCKS - 1 - high)) & (UINT64_MAX << low);
  struct leaf *leaf = cover(hotness, key, blocks);
  struct leaf_row *row;
  int is_full = 0;

  if (!leaf)
    return -ENOSPC;
  row = &leaf->rows[leaf_place(leaf, low)];
  for (uint64_t block = first; block <= last; block++)
    is_full |= record(hotness, row++, touch, sectors_within(touch, block));
  return is_full ? -EOVERFLOW : 0;
}

static int record_request(struct hotness *hotness, const struct touch *touch, uint16_t device) {
  uint64_t last = (touch->end_sector - 1) >> BLOCK_SECTORS_LOG2;
  uint64_t block = touch->first_sector >> BLOCK_SECTORS_LOG2;

  while (block <= last) {
    uint64_t key = tk_hotness_key(device, block);
    uint64_t run_last = block | (LEAF_BLOCKS - 1);

    if (run_last > last)
      run_last = last;
    if (key >= hotness->first_key && key <= hotness->last_key) {
      int status = record_run(hotness, touch, key, block, run_last);

      if (status)
        return status;
    }
    block = run_last + 1;
  }
  return 0;
}

static int is_possible(int64_t sector, int64_t length_bytes) {
  return sector >= 0 && sector < MAX_SECTOR && length_bytes > 0 &&
         length_bytes <= MAX_LENGTH_BYTES &&
         sector + (length_bytes + SECTOR_BYTES - 1) / SECTOR_BYTES <= MAX_SECTOR;
}

static uint32_t window_at(const struct hotness *hotness, int64_t time_ns) {
  uint64_t window = (uint64_t)time_ns / (uint64_t)hotness->window_ns;

  return window < hotness->window_count ? (uint32_t)window : hotness->window_count - 1;
}

static int add_one(struct hotness *hotness, const struct hotness_batch *batch, uint64_t i) {
  int64_t sector = batch->sector[i];
  int64_t length_bytes = batch->length_bytes[i];
  int64_t time_ns = batch->time_ns[i];
  struct touch touch = {.role = batch->role[i], .is_write = batch->operation[i] == HOTNESS_WRITE};

  if (batch->operation[i] != HOTNESS_READ && batch->operation[i] != HOTNESS_WRITE)
    return 0;
  if (touch.role >= hotness->role_count)
    return -EINVAL;
  if (!is_possible(sector, length_bytes)) {
    hotness->impossible++;
    return 0;
  }

  touch.volume = volumes_get(&hotness->volumes, batch->device[i]);
  if (!touch.volume)
    return -ENOMEM;
  if (!hotness->first_key)
    volume_request(touch.volume, sector, touch.is_write, time_ns);

  /* Windows follow the latest time seen: a request without a time belongs to it. */
  hotness->requests++;
  touch.known_ns = time_ns;
  if (time_ns == HOTNESS_NO_TIME)
    time_ns = hotness->clock_ns;
  if (time_ns > hotness->clock_ns)
    hotness->clock_ns = time_ns;
  touch.first_sector = (uint64_t)sector;
  touch.end_sector = (uint64_t)(sector + (length_bytes + SECTOR_BYTES - 1) / SECTOR_BYTES);
  touch.time_ns = time_ns;
  touch.window = window_at(hotness, hotness->clock_ns);
  return record_request(hotness, &touch, batch->device[i]);
}

static uint64_t first_block(const struct hotness_batch *batch, uint64_t i) {
  return (uint64_t)batch->sector[i] >> BLOCK_SECTORS_LOG2;
}

static struct leaf *known_leaf(const struct hotness *hotness, const struct hotness_batch *batch,
                               uint64_t i) {
  uint64_t key = tk_hotness_key(batch->device[i], first_block(batch, i));
  const struct leaf_map_entry *entry = leaf_map_find(&hotness->map, key);

  return entry ? leaves_at(&hotness->leaves, entry->value) : NULL;
}

/* Fetches what requests soon after request `i` will need. */
static void look_ahead(const struct hotness *hotness, const struct hotness_batch *batch,
                       uint64_t i) {
  if (i + ENTRY_DISTANCE >= batch->count)
    return;
  leaf_map_prefetch(&hotness->map, tk_hotness_key(batch->device[i + ENTRY_DISTANCE],
                                                  first_block(batch, i + ENTRY_DISTANCE)));

  const struct leaf *leaf = known_leaf(hotness, batch, i + LEAF_DISTANCE);
  if (leaf)
    __builtin_prefetch(leaf);
  leaf = known_leaf(hotness, batch, i + ROW_DISTANCE);
  if (leaf) {
    unsigned low = (unsigned)(first_block(batch, i + ROW_DISTANCE) % LEAF_BLOCKS);
    const char *row = (const char *)&leaf->rows[leaf_place(leaf, low)];

    for (int line = 0; line < ROW_LINES; line++)
      __builtin_prefetch(row + line * CACHE_LINE_BYTES, 1);
  }
}

int tk_hotness_add(struct hotness *hotness, const struct hotness_batch *batch, uint64_t *done) {
  int status = 0;
  uint64_t i;

  for (i = 0; i < batch->count && !status; i++) {
    look_ahead(hotness, batch, i);
    status = add_one(hotness, batch, i);
  }
  *done = status ? i - 1 : i;
  return status;
}

void tk_hotness_totals(const struct hotness *hotness, struct hotness_totals *out) {
  const struct leaf_map *map = &hotness->map;
  uint64_t length = hotness->is_sorted ? map->count : UINT64_C(1) << map->size_log2;

  *out = (struct hotness_totals){
      .requests = hotness->requests,
      .impossible = hotness->impossible,
      .memory_bytes = leaf_map_bytes(map) + hotness->leaves.used_bytes,
      .clock_ns = hotness->clock_ns,
  };
  for (uint64_t i = 0; i < length; i++) {
    if (!map->entries[i].is_used || !map->entries[i].value)
      continue;
    const struct leaf *leaf = leaves_at(&hotness->leaves, map->entries[i].value);
    int rows = __builtin_popcountll(leaf->bitmap);

    out->blocks += (uint64_t)rows;
    for (int row = 0; row < rows; row++) {
      out->touches += (uint64_t)leaf->rows[row].reads + leaf->rows[row].writes;
      out->mixed_blocks += leaf->rows[row].is_mixed;
    }
  }
}

void tk_hotness_windows(const struct hotness *hotness, uint64_t *distinct, uint64_t *fresh) {
  memcpy(distinct, hotness->distinct, hotness->cells * sizeof(*distinct));
  memcpy(fresh, hotness->fresh, hotness->cells * sizeof(*fresh));
}

int tk_hotness_volume(const struct hotness *hotness, uint16_t device, struct volume_counts *counts,
                      uint64_t *intervals) {
  return volumes_read(&hotness->volumes, device, counts, intervals);
}

static void sort_once(struct hotness *hotness) {
  if (!hotness->is_sorted)
    leaf_map_sort(&hotness->map);
  hotness->is_sorted = 1;
}

uint64_t tk_hotness_cuts(struct hotness *hotness, uint64_t count, uint64_t *keys) {
  uint64_t written = 0;
  uint64_t previous = 0; /* place of the latest cut; a range holds at least one leaf */

  sort_once(hotness);
  for (uint64_t i = 1; i < count; i++) {
    uint64_t leaves = hotness->map.count;
    uint64_t place = leaves / count * i + leaves % count * i / count; /* cannot overflow */

    if (place > previous) {
      keys[written++] = hotness->map.entries[place].key;
      previous = place;
    }
  }
  return written;
}

static uint64_t export_leaf(const struct leaf *leaf, uint64_t key, struct hotness_record *out) {
  uint64_t device = key >> DEVICE_SHIFT;
  uint64_t first_block = (key & ((UINT64_C(1) << DEVICE_SHIFT) - 1)) << LEAF_BLOCKS_LOG2;
  uint64_t written = 0;

  for (uint64_t bits = leaf->bitmap; bits; bits &= bits - 1) {
    const struct leaf_row *row = &leaf->rows[written];

    out[written++] = (struct hotness_record){
        .block = (int64_t)(first_block + (uint64_t)__builtin_ctzll(bits)),
        .first_ns = row->first_ns,
        .last_ns = row->last_ns,
        .reads = row->reads,
        .writes = row->writes,
        .device = (uint16_t)device,
        .role = row->role,
        .sectors = (uint8_t)__builtin_popcount(row->sectors),
    };
  }
  return written;
}

uint64_t tk_hotness_export(struct hotness *hotness, struct hotness_record *out, uint64_t capacity) {
  uint64_t written = 0;

  sort_once(hotness);
  while (hotness->exported < hotness->map.count && capacity - written >= LEAF_BLOCKS) {
    const struct leaf_map_entry *entry = &hotness->map.entries[hotness->exported++];

    written += export_leaf(leaves_at(&hotness->leaves, entry->value), entry->key, out + written);
  }
  return written;
}
