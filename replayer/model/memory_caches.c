#include "model/memory_caches.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NOTHING UINT64_MAX
#define DIRTY 1u /* of an entry, whose other bits are the line */
#define LEAST_LINE_SHIFT 4
#define MOST_LINE_SHIFT 16
#define MOST_BYTES (1u << 20) /* of an access */
#define MOST_LINES (1ull << 32)

/* Sets of entries, the one used last first. */
struct cache {
  uint64_t sets;
  uint64_t mask; /* of the sets if their number is a power of two, else 0 */
  uint32_t ways;
  uint64_t *entries;
};

struct memory_caches {
  uint32_t count, line_shift;
  struct cache fetches;                    /* of the first level */
  struct cache levels[MEMORY_LEVELS_MOST]; /* the first one has data only */
  uint64_t *recent[2]; /* entry of the line used last of data and of instructions, or NULL */
  uint64_t counts[MEMORY_LEVELS_MOST + 1][MEMORY_KINDS];
};

/* Where accesses to the memory are written. */
struct output {
  struct memory_access *rows;
  uint64_t count;
  uint32_t line_shift;
};

static void emit(struct output *out, uint64_t line, bool is_write) {
  out->rows[out->count++] =
      (struct memory_access){line << out->line_shift, 1u << out->line_shift, is_write};
}

static int make_cache(struct cache *cache, const struct memory_level *level) {
  if (level->sets == 0 || level->ways == 0 || level->ways > MEMORY_WAYS_MOST ||
      level->sets > MOST_LINES / level->ways)
    return -EINVAL;
  cache->sets = level->sets;
  cache->mask = (level->sets & (level->sets - 1)) == 0 ? level->sets - 1 : 0;
  cache->ways = level->ways;
  const size_t bytes = level->sets * level->ways * sizeof *cache->entries;
  cache->entries = malloc(bytes);
  if (cache->entries == NULL)
    return -ENOMEM;
  memset(cache->entries, 0xff, bytes); /* NOTHING */
  return 0;
}

int tk_memory_caches_new(const struct memory_level *levels, uint32_t count, uint32_t line_shift,
                         struct memory_caches **out) {
  if (count > MEMORY_LEVELS_MOST || line_shift < LEAST_LINE_SHIFT || line_shift > MOST_LINE_SHIFT)
    return -EINVAL;
  struct memory_caches *caches = calloc(1, sizeof *caches);
  if (caches == NULL)
    return -ENOMEM;
  caches->count = count;
  caches->line_shift = line_shift;
  int error = count ? make_cache(&caches->fetches, &levels[0]) : 0;
  for (uint32_t i = 0; i < count && !error; i++)
    error = make_cache(&caches->levels[i], &levels[i]);
  if (error) {
    tk_memory_caches_free(caches);
    return error;
  }
  *out = caches;
  return 0;
}

static uint64_t *set_of(const struct cache *cache, uint64_t line) {
  const uint64_t set = cache->mask || cache->sets == 1 ? line & cache->mask : line % cache->sets;
  return cache->entries + set * cache->ways;
}

static uint32_t find(const struct cache *cache, const uint64_t *set, uint64_t line) {
  uint32_t at = 0;
  while (at < cache->ways && (set[at] == NOTHING || set[at] >> 1 != line))
    at++;
  return at;
}

/* Makes the line the newest of its set; returns its entry. `*victim` is the entry that had to go,
 * NOTHING if none had, and `*is_hit` says whether the line was there. */
static uint64_t *touch(struct cache *cache, uint64_t line, uint64_t *victim, bool *is_hit) {
  uint64_t *set = set_of(cache, line);
  const uint32_t at = find(cache, set, line);
  uint64_t entry = line << 1;
  *is_hit = at < cache->ways;
  *victim = NOTHING;
  if (*is_hit)
    entry = set[at];
  else
    *victim = set[cache->ways - 1];
  memmove(set + 1, set, (*is_hit ? at : cache->ways - 1) * sizeof *set);
  set[0] = entry;
  return set;
}

/* Takes a dirty line down from above `level`, to the first that has it or to the memory. */
static void write_back(struct memory_caches *caches, uint32_t level, uint64_t line,
                       struct output *out) {
  for (; level < caches->count; level++) {
    struct cache *cache = &caches->levels[level];
    uint64_t *set = set_of(cache, line);
    const uint32_t at = find(cache, set, line);
    if (at < cache->ways) {
      set[at] |= DIRTY;
      return;
    }
  }
  emit(out, line, true);
}

/* Brings a line to the first level and returns how many levels missed it. */
static uint32_t bring(struct memory_caches *caches, uint64_t line, enum tk_memory_operation kind,
                      struct output *out) {
  const bool is_fetch = kind == MEMORY_FETCH;
  const bool is_write = kind == MEMORY_STORE || kind == MEMORY_MODIFY;
  uint64_t **recent = &caches->recent[is_fetch];
  if (*recent && **recent >> 1 == line) {
    **recent |= is_write;
    return 0;
  }

  uint64_t victims[MEMORY_LEVELS_MOST];
  uint32_t missed = 0;
  for (bool is_hit = false; missed < caches->count; missed++) {
    const bool is_first = missed == 0;
    struct cache *cache = is_first && is_fetch ? &caches->fetches : &caches->levels[missed];
    uint64_t *entry = touch(cache, line, &victims[missed], &is_hit);
    if (is_first) {
      *recent = entry;
      *entry |= is_write;
    }
    if (is_hit)
      break;
  }
  if (missed == caches->count)
    emit(out, line, false);
  for (uint32_t i = 0; i < missed; i++)
    if (victims[i] != NOTHING && (victims[i] & DIRTY))
      write_back(caches, i + 1, victims[i] >> 1, out);
  return missed;
}

/* Without caches the memory sees what is asked for. */
static void pass(const struct memory_access *asked, enum tk_memory_operation kind,
                 struct output *out) {
  const bool is_write[2] = {kind == MEMORY_STORE, true};
  const uint32_t count = kind == MEMORY_FETCH ? 0 : kind == MEMORY_MODIFY ? 2 : 1;
  for (uint32_t i = 0; i < count; i++) {
    out->rows[out->count] = *asked;
    out->rows[out->count++].is_write = is_write[i];
  }
}

uint64_t tk_memory_caches_add(struct memory_caches *caches, const uint64_t *addresses,
                              const int32_t *sizes, const uint8_t *operations, uint64_t count,
                              struct memory_access *rows, uint64_t capacity, uint64_t *written) {
  struct output out = {rows, 0, caches->line_shift};
  uint64_t taken = 0;

  /* An access is taken whole, or with the next call if there may not be enough space. */
  for (; taken < count; taken++) {
    const enum tk_memory_operation kind =
        operations[taken] < MEMORY_KINDS ? operations[taken] : MEMORY_LOAD;
    const uint32_t asked = sizes[taken] < 1 ? 1u : (uint32_t)sizes[taken];
    const uint32_t bytes = asked < MOST_BYTES ? asked : MOST_BYTES;
    const uint64_t address = addresses[taken];
    const uint64_t last = address + (bytes - 1) < address ? UINT64_MAX : address + (bytes - 1);
    const uint64_t first_line = address >> caches->line_shift;
    const uint64_t lines = (last >> caches->line_shift) - first_line + 1;
    /* A line is read at most once, and each level may write one back; a modify passes two. */
    if (capacity - out.count < lines * (MEMORY_LEVELS_MOST + 1))
      break;

    uint32_t missed = 0;
    for (uint64_t i = 0; caches->count && i < lines; i++) {
      const uint32_t levels = bring(caches, first_line + i, kind, &out);
      missed = levels > missed ? levels : missed;
    }
    if (caches->count == 0)
      pass(&(struct memory_access){address, bytes, 0}, kind, &out);
    for (uint32_t level = 0; level <= missed; level++)
      caches->counts[level][kind]++;
  }
  *written = out.count;
  return taken;
}

void tk_memory_caches_read(const struct memory_caches *caches, uint64_t *counts) {
  memcpy(counts, caches->counts, (caches->count + 1) * sizeof caches->counts[0]);
}

static int compare(const void *left, const void *right) {
  const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

uint64_t tk_memory_caches_dirty(const struct memory_caches *caches) {
  uint64_t count = 0, total = 0;
  for (uint32_t i = 0; i < caches->count; i++)
    total += caches->levels[i].sets * caches->levels[i].ways;
  uint64_t *lines = malloc((total + 1) * sizeof *lines);
  if (lines == NULL)
    return NOTHING;
  for (uint32_t i = 0; i < caches->count; i++) {
    const struct cache *cache = &caches->levels[i];
    for (uint64_t at = 0; at < cache->sets * cache->ways; at++)
      if (cache->entries[at] != NOTHING && (cache->entries[at] & DIRTY))
        lines[count++] = cache->entries[at] >> 1;
  }
  qsort(lines, count, sizeof *lines, compare);
  uint64_t different = 0;
  for (uint64_t i = 0; i < count; i++)
    different += i == 0 || lines[i] != lines[i - 1];
  free(lines);
  return different;
}

void tk_memory_caches_free(struct memory_caches *caches) {
  if (caches == NULL)
    return;
  free(caches->fetches.entries);
  for (uint32_t i = 0; i < MEMORY_LEVELS_MOST; i++)
    free(caches->levels[i].entries);
  free(caches);
}
