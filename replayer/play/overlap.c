#include "play/overlap.h"

#include <stdlib.h>
#include <string.h>

#include "play/overlap_lists.h"

/* A request in flight is first among the recent ones: 64 at most, in a few cache lines, where most
 * of them end. A filter of cells as long as the longest of them tells which need a look at each of
 * the others. Those that are still in flight when 64 have come go to lists. */
#define RECENT 64U
#define FILTER_BITS 7U
#define FILTER_WORDS (1U << FILTER_BITS)
#define TARGET_SHIFT 57 /* above all sectors */
#define RARELY __attribute__((noinline, cold))

const char *const overlap_words[] = {"allow", "order", "drop", NULL};

/* Where a request is: its number among the recent ones, or one of these. */
enum { IN_LISTS = RECENT, NOWHERE };

struct overlap {
  uint32_t count;  /* recent requests */
  uint32_t shift;  /* sectors of a cell of the filter, a power of two: none of them is longer */
  uint32_t widest; /* all their lengths, less one each, or'ed */
  uint32_t listed; /* requests in lists */
  struct overlap_lists *lists;
  uint8_t *places;        /* by slot: where it is */
  uint64_t alive;         /* bits of the recent ones that are in flight */
  uint64_t first[RECENT]; /* their sectors, below their targets */
  uint64_t end[RECENT];
  uint32_t slots[RECENT];
  uint64_t writes;                              /* bits of those that write */
  uint64_t filter[OVERLAP_KINDS][FILTER_WORDS]; /* bits of cells: of those that write, of all */
};

/* What is asked of the recent ones. */
struct range {
  uint64_t first;
  uint64_t end;
  unsigned kind; /* by which filter: what it must not meet */
};

/* Where a cell is in a filter. */
struct mark {
  uint32_t word;
  uint32_t bit;
};

struct overlap *overlap_open(uint32_t depth) {
  struct overlap *overlap = calloc(1, sizeof *overlap);
  if (overlap == NULL)
    return NULL;
  overlap->lists = overlap_lists_open(depth);
  overlap->places = malloc(depth);
  if (overlap->lists == NULL || overlap->places == NULL) {
    overlap_close(overlap);
    return NULL;
  }
  memset(overlap->places, NOWHERE, depth); /* touches its pages before the run */
  return overlap;
}

static struct range range_of(const struct block_record *record) {
  uint64_t first = (uint64_t)record->target << TARGET_SHIFT | record->sector;
  return (struct range){first, first + record->length_sectors, overlap_kind(record->operation)};
}

static struct mark mark_of(uint64_t cell) {
  uint64_t hash = cell * UINT64_C(0x9E3779B97F4A7C15);
  return (struct mark){(uint32_t)(hash >> (64U - FILTER_BITS)),
                       (uint32_t)(hash >> (58U - FILTER_BITS)) & 63U};
}

static bool is_marked(const struct overlap *overlap, struct mark mark, unsigned kind) {
  return (overlap->filter[kind][mark.word] >> mark.bit & 1U) != 0;
}

static void set_mark(struct overlap *overlap, struct mark mark, unsigned kind) {
  overlap->filter[OVERLAP_READS][mark.word] |= (uint64_t)kind << mark.bit;
  overlap->filter[OVERLAP_WRITES][mark.word] |= UINT64_C(1) << mark.bit;
}

static bool is_long(const struct overlap *overlap, const struct block_record *record) {
  return (uint64_t)(record->length_sectors - 1) >> overlap->shift != 0;
}

/* Looks at each of the recent ones. */
RARELY static bool find_recent(const struct overlap *overlap, struct range range) {
  uint64_t found = 0;
  for (uint32_t i = 0; i < overlap->count; i++)
    found |= (uint64_t)((overlap->first[i] < range.end) & (range.first < overlap->end[i])) << i;
  return (found & overlap->alive & (range.kind == OVERLAP_WRITES ? UINT64_MAX : overlap->writes)) !=
         0;
}

/* What is no longer than a cell lies in the cells of its ends. */
bool overlap_find(const struct overlap *overlap, const struct block_record *record) {
  const struct range range = range_of(record);
  if (record->length_sectors == 0)
    return false;
  bool may_meet = is_long(overlap, record) ||
                  is_marked(overlap, mark_of(range.first >> overlap->shift), range.kind) ||
                  is_marked(overlap, mark_of((range.end - 1) >> overlap->shift), range.kind);
  return (may_meet && find_recent(overlap, range)) ||
         (overlap->listed > 0 && overlap_lists_find(overlap->lists, record));
}

/* Adds a request to the recent ones; its cells are marked. */
static inline void add(struct overlap *overlap, uint32_t slot, struct range range) {
  uint32_t number = overlap->count++;
  overlap->first[number] = range.first;
  overlap->end[number] = range.end;
  overlap->slots[number] = slot;
  overlap->alive |= UINT64_C(1) << number;
  overlap->writes |= (uint64_t)range.kind << number;
  overlap->widest |= (uint32_t)(range.end - range.first - 1);
  overlap->places[slot] = (uint8_t)number;
}

/* Takes the recent ones that are in flight to the lists, and makes cells long enough for those and
 * the next. */
static void begin_recent(struct overlap *overlap, uint32_t length_sectors) {
  const uint64_t sectors = (UINT64_C(1) << TARGET_SHIFT) - 1;
  for (; overlap->alive != 0; overlap->alive &= overlap->alive - 1) {
    unsigned number = (unsigned)__builtin_ctzll(overlap->alive);
    uint32_t slot = overlap->slots[number];
    struct block_record record = {
        .sector = overlap->first[number] & sectors,
        .length_sectors = (uint32_t)(overlap->end[number] - overlap->first[number]),
        .operation = (overlap->writes >> number & 1U) != 0 ? BLOCK_WRITE : BLOCK_READ,
        .target = (uint16_t)(overlap->first[number] >> TARGET_SHIFT)};
    overlap_lists_add(overlap->lists, slot, &record);
    overlap->places[slot] = IN_LISTS;
    overlap->listed++;
  }
  overlap->shift = 32U - (unsigned)__builtin_clz(overlap->widest | (length_sectors - 1) | 1U);
  overlap->count = 0;
  overlap->widest = 0;
  overlap->writes = 0;
  memset(overlap->filter, 0, sizeof overlap->filter);
}

/* The same as overlap_enter, whatever there is. */
RARELY static bool enter_any(struct overlap *overlap, uint32_t slot,
                             const struct block_record *record) {
  overlap->places[slot] = NOWHERE;
  if (record->length_sectors == 0)
    return false;
  bool is_found = overlap_find(overlap, record);
  if (overlap->count == RECENT || is_long(overlap, record))
    begin_recent(overlap, record->length_sectors);
  const struct range range = range_of(record);
  set_mark(overlap, mark_of(range.first >> overlap->shift), range.kind);
  set_mark(overlap, mark_of((range.end - 1) >> overlap->shift), range.kind);
  add(overlap, slot, range);
  return is_found;
}

/* Most often a request lies in one cell, which no other has: that is without calls. */
bool overlap_enter(struct overlap *overlap, uint32_t slot, const struct block_record *record) {
  const struct range range = range_of(record);
  uint64_t cell = range.first >> overlap->shift;
  struct mark mark = mark_of(cell);
  if (cell != (range.end - 1) >> overlap->shift || record->length_sectors == 0 ||
      overlap->count == RECENT || overlap->listed > 0 || is_marked(overlap, mark, range.kind))
    return enter_any(overlap, slot, record);
  set_mark(overlap, mark, range.kind);
  add(overlap, slot, range);
  return false;
}

void overlap_remove(struct overlap *overlap, uint32_t slot) {
  uint32_t place = overlap->places[slot];
  if (place < RECENT) {
    overlap->alive &= ~(UINT64_C(1) << place);
  } else if (place == IN_LISTS) {
    overlap_lists_remove(overlap->lists, slot);
    overlap->listed--;
  }
}

void overlap_close(struct overlap *overlap) {
  if (overlap == NULL)
    return;
  overlap_lists_close(overlap->lists);
  free(overlap->places);
  free(overlap);
}
