#include "play/overlap.h"

#include <stdlib.h>
#include <string.h>

/* A request in flight is first among the recent ones: 64 at most, all in a few cache lines, where
 * most of them end. A filter of cells as long as the longest of them tells which need a look at
 * each of the others. Those that are still in flight when 64 have come go to lists.
 *
 * There each size of request has a level, whose cells are at least as long: a request lies in one
 * or two of them, and is in their lists. 64 cells next to each other share a word, in which the
 * bits of those with a list are set: whatever the length, only lists that may matter are walked. */
#define LEVELS 16U                           /* cells of the 11th are longer than any request */
#define CELL_BITS(level) (3U + 3U * (level)) /* sectors: 4 KiB, 32 KiB, 256 KiB ... */
#define CELLS_MAX 2U                         /* of one request */
#define WORD_BITS 6U
#define WORD_CELLS (1U << WORD_BITS)
#define WORDS_MIN 16U
#define SLOTS_A_WORD 16U
#define NONE UINT16_MAX
#define RARELY __attribute__((noinline, cold))

enum { READS, WRITES, KINDS };

const char *const overlap_words[] = {"allow", "order", "drop", NULL};

/* A request in flight in the list of one of its cells. Node n belongs to slot n / CELLS_MAX. */
struct node {
  uint32_t list;
  uint16_t next;   /* node, or NONE */
  uint16_t before; /* node, or NONE: the list begins here */
};

/* Half a cache line. */
struct entry {
  _Alignas(32) uint64_t first; /* sector */
  uint32_t length;             /* sectors */
  uint16_t target;
  uint8_t class; /* of its kind and level */
  uint8_t cells; /* lists that it is in; 0: it has no sectors */
  struct node nodes[CELLS_MAX];
};

#define RECENT 64U
#define FILTER_BITS 7U  /* words of it, a power of two */
#define TARGET_SHIFT 57 /* above all sectors */

/* Where a request is: its number among the recent ones, or one of these. */
enum { IN_LISTS = RECENT, NOWHERE };

/* The requests that came last. Their targets stand above their sectors. */
struct recent {
  uint32_t count;
  uint32_t shift;  /* sectors of a cell of the filter, a power of two: no request is longer */
  uint32_t widest; /* all lengths, less one each, or'ed */
  uint64_t alive;  /* bits of those in flight */
  uint64_t writes; /* bits of those that write */
  uint64_t first[RECENT];
  uint64_t end[RECENT];
  uint32_t slots[RECENT];
  uint64_t filter[1U << FILTER_BITS][KINDS]; /* bits of cells, of all and of those that write */
};

struct overlap {
  struct recent recent;
  uint8_t *places;                 /* by slot: where it is */
  uint32_t listed;                 /* requests in lists */
  uint32_t word_mask;              /* places of words, a power of two, less one */
  uint32_t classes;                /* bits of those that have requests in flight */
  uint32_t counts[KINDS * LEVELS]; /* requests in flight by class */
  uint64_t *words;                 /* by place and kind: bits of cells with a list */
  uint16_t *heads;                 /* by word and bit: first node of the list, if there is one */
  struct entry *entries;           /* by slot */
};

/* Where the bit of a cell is; those of its neighbours are beside it, in a circle. */
struct place {
  uint32_t word; /* that of READS; WRITES follows */
  uint32_t bit;
};

static unsigned kind_of(uint8_t operation) {
  const unsigned reading = 1U << BLOCK_READ | 1U << BLOCK_FLUSH;
  return ~reading >> operation & 1U;
}

static unsigned level_of(uint32_t length_sectors) {
  unsigned top = 31U - (unsigned)__builtin_clz((length_sectors - 1) | ((1U << CELL_BITS(0)) - 1));
  return top / 3U;
}

static uint64_t cell_of(uint64_t sector, unsigned level) { return sector >> CELL_BITS(level); }

static uint64_t end_of(const struct block_record *record) {
  return record->sector + record->length_sectors;
}

/* Cells of equal distance, such as those of stripes, would meet in one bit if the hash did not turn
 * the circle. */
static struct place place_of(const struct overlap *overlap, uint16_t target, unsigned level,
                             uint64_t cell) {
  uint64_t key = (cell >> WORD_BITS << 10 | (uint64_t)target << 4 | level) + 1;
  uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
  return (struct place){.word = ((uint32_t)(hash >> 40) & overlap->word_mask) * KINDS,
                        .bit = (uint32_t)(cell + (hash >> 32)) & (WORD_CELLS - 1)};
}

static uint64_t turned(uint64_t bits, uint32_t turn) {
  return bits << turn | bits >> (-turn & (WORD_CELLS - 1));
}

struct overlap *overlap_open(uint32_t depth) {
  struct overlap *overlap = calloc(1, sizeof *overlap);
  if (overlap == NULL)
    return NULL;
  uint32_t words = WORDS_MIN;
  while (words * SLOTS_A_WORD < depth)
    words *= 2;
  overlap->word_mask = words - 1;
  size_t heads = (size_t)words * WORD_CELLS * KINDS;
  overlap->words = calloc((size_t)words * KINDS, sizeof *overlap->words);
  overlap->heads = malloc(heads * sizeof *overlap->heads);
  overlap->entries = aligned_alloc(_Alignof(struct entry), depth * sizeof *overlap->entries);
  overlap->places = malloc(depth);
  if (overlap->words == NULL || overlap->heads == NULL || overlap->entries == NULL ||
      overlap->places == NULL) {
    overlap_close(overlap);
    return NULL;
  }
  memset(overlap->entries, 0, depth * sizeof *overlap->entries);
  memset(overlap->places, NOWHERE, depth);
  memset(overlap->heads, 0xff,
         heads * sizeof *overlap->heads); /* touches every page before the run */
  return overlap;
}

static struct node *node_of(const struct overlap *overlap, uint32_t at) {
  return &overlap->entries[at / CELLS_MAX].nodes[at % CELLS_MAX];
}

static bool find_in(const struct overlap *overlap, uint32_t list,
                    const struct block_record *record) {
  for (uint32_t at = overlap->heads[list]; at != NONE; at = node_of(overlap, at)->next) {
    const struct entry *entry = &overlap->entries[at / CELLS_MAX];
    if (entry->target == record->target && entry->first < end_of(record) &&
        record->sector < entry->first + entry->length)
      return true;
  }
  return false;
}

/* Looks into the lists of these cells of a place. */
RARELY static bool find_in_lists(const struct overlap *overlap, uint32_t place, uint64_t cells,
                                 const struct block_record *record) {
  for (unsigned kind = kind_of(record->operation) == WRITES ? READS : WRITES; kind < KINDS; kind++)
    for (uint64_t left = overlap->words[place + kind] & cells; left != 0; left &= left - 1)
      if (find_in(overlap, (place + kind) << WORD_BITS | (uint32_t)__builtin_ctzll(left), record))
        return true;
  return false;
}

/* Looks at `count` cells of one word. */
static bool find_in_cells(const struct overlap *overlap, unsigned level, uint64_t cell,
                          uint64_t count, const struct block_record *record) {
  struct place place = place_of(overlap, record->target, level, cell);
  uint64_t cells = turned(UINT64_MAX >> (WORD_CELLS - count), place.bit);
  uint64_t bits = overlap->words[place.word + WRITES];
  if (kind_of(record->operation) == WRITES)
    bits |= overlap->words[place.word + READS];
  return (bits & cells) == 0 ? false : find_in_lists(overlap, place.word, cells, record);
}

/* Looks at cells of several words; where these are more than there are, at all that there are. */
RARELY static bool find_in_words(const struct overlap *overlap, unsigned level, uint64_t first,
                                 uint64_t last, const struct block_record *record) {
  bool is_found = false;
  if ((last - first) >> WORD_BITS > overlap->word_mask) {
    for (uint32_t place = 0; place <= overlap->word_mask && !is_found; place++)
      is_found = find_in_lists(overlap, place * KINDS, UINT64_MAX, record);
    return is_found;
  }
  while (first <= last && !is_found) {
    uint64_t end = (first | (WORD_CELLS - 1)) + 1;
    uint64_t count = (last < end ? last + 1 : end) - first;
    is_found = find_in_cells(overlap, level, first, count, record);
    first = end;
  }
  return is_found;
}

static bool find_in_level(const struct overlap *overlap, unsigned level,
                          const struct block_record *record) {
  uint64_t first = cell_of(record->sector, level);
  uint64_t last = cell_of(end_of(record) - 1, level);
  if (first >> WORD_BITS != last >> WORD_BITS)
    return find_in_words(overlap, level, first, last, record);
  return find_in_cells(overlap, level, first, last - first + 1, record);
}

/* Looks into the lists. */
static bool find_listed(const struct overlap *overlap, const struct block_record *record) {
  uint32_t levels = overlap->classes >> LEVELS;
  if (kind_of(record->operation) == WRITES)
    levels |= overlap->classes & ((1U << LEVELS) - 1);
  for (; levels != 0; levels &= levels - 1)
    if (find_in_level(overlap, (unsigned)__builtin_ctz(levels), record))
      return true;
  return false;
}

static void add_node(struct overlap *overlap, uint32_t at, const struct block_record *record,
                     unsigned kind, unsigned level, uint64_t cell) {
  struct place place = place_of(overlap, record->target, level, cell);
  uint64_t bit = UINT64_C(1) << place.bit;
  uint64_t *word = &overlap->words[place.word + kind];
  uint32_t list = (place.word + kind) << WORD_BITS | place.bit;
  uint16_t next = (*word & bit) != 0 ? overlap->heads[list] : NONE;
  if (next != NONE)
    node_of(overlap, next)->before = (uint16_t)at;
  *node_of(overlap, at) = (struct node){.list = list, .next = next, .before = NONE};
  overlap->heads[list] = (uint16_t)at;
  *word |= bit;
}

static void add_to_lists(struct overlap *overlap, uint32_t slot,
                         const struct block_record *record) {
  unsigned kind = kind_of(record->operation);
  unsigned level = level_of(record->length_sectors);
  unsigned class = kind * LEVELS + level;
  uint64_t cell = cell_of(record->sector, level);
  bool has_two = cell != cell_of(end_of(record) - 1, level);
  overlap->entries[slot] = (struct entry){.first = record->sector,
                                          .length = record->length_sectors,
                                          .target = record->target,
                                          .class = (uint8_t)class,
                                          .cells = has_two ? CELLS_MAX : 1};
  overlap->listed++;
  overlap->counts[class]++;
  overlap->classes |= 1U << class;
  add_node(overlap, slot * CELLS_MAX, record, kind, level, cell);
  if (has_two)
    add_node(overlap, slot * CELLS_MAX + 1, record, kind, level, cell + 1);
}

/* Empties the recent ones: those in flight go to lists. */
RARELY static void begin_recent(struct overlap *overlap, uint32_t length_sectors) {
  struct recent *recent = &overlap->recent;
  for (; recent->alive != 0; recent->alive &= recent->alive - 1) {
    unsigned number = (unsigned)__builtin_ctzll(recent->alive);
    const uint64_t sectors = (UINT64_C(1) << TARGET_SHIFT) - 1;
    struct block_record record = {
        .sector = recent->first[number] & sectors,
        .length_sectors = (uint32_t)(recent->end[number] - recent->first[number]),
        .operation = (recent->writes >> number & 1U) != 0 ? BLOCK_WRITE : BLOCK_READ,
        .target = (uint16_t)(recent->first[number] >> TARGET_SHIFT)};
    overlap->places[recent->slots[number]] = IN_LISTS;
    add_to_lists(overlap, recent->slots[number], &record);
  }
  uint32_t widest = recent->widest | (length_sectors - 1) | 1U;
  recent->shift = 32U - (unsigned)__builtin_clz(widest);
  recent->count = 0;
  recent->widest = 0;
  recent->writes = 0;
  memset(recent->filter, 0, sizeof recent->filter);
}

/* What is asked of the recent ones. */
struct range {
  uint64_t first;
  uint64_t end;
  unsigned kind;
};

static struct range range_of(const struct block_record *record) {
  uint64_t first = (uint64_t)record->target << TARGET_SHIFT | record->sector;
  return (struct range){first, first + record->length_sectors, kind_of(record->operation)};
}

/* Looks at each of the recent ones. */
RARELY static bool find_in_recent(const struct recent *recent, struct range range) {
  uint64_t found = 0;
  for (uint32_t i = 0; i < recent->count; i++)
    found |= (uint64_t)((recent->first[i] < range.end) & (range.first < recent->end[i])) << i;
  return (found & recent->alive & (range.kind == WRITES ? UINT64_MAX : recent->writes)) != 0;
}

/* Where a cell is in the filter. */
struct mark {
  uint32_t word;
  uint32_t bit;
};

static struct mark mark_of(uint64_t cell) {
  uint64_t hash = cell * UINT64_C(0x9E3779B97F4A7C15);
  return (struct mark){(uint32_t)(hash >> (64U - FILTER_BITS)),
                       (uint32_t)(hash >> (58U - FILTER_BITS)) & 63U};
}

static bool is_marked(const struct recent *recent, struct mark mark, unsigned kind) {
  return (recent->filter[mark.word][kind == WRITES ? 0 : 1] >> mark.bit & 1U) != 0;
}

static void set_mark(struct recent *recent, struct mark mark, unsigned kind) {
  recent->filter[mark.word][0] |= UINT64_C(1) << mark.bit;
  recent->filter[mark.word][1] |= (uint64_t)kind << mark.bit;
}

/* Whether the cells at both ends of a range are free of what it must not meet; all that there are
 * when it is no longer than a cell. */
static inline bool is_free(const struct recent *recent, struct range range) {
  uint64_t first = range.first >> recent->shift;
  uint64_t last = (range.end - 1) >> recent->shift;
  return !is_marked(recent, mark_of(first), range.kind) &&
         (first == last || !is_marked(recent, mark_of(last), range.kind));
}

static bool is_long(const struct recent *recent, const struct block_record *record) {
  return (uint64_t)(record->length_sectors - 1) >> recent->shift != 0;
}

bool overlap_find(const struct overlap *overlap, const struct block_record *record) {
  const struct recent *recent = &overlap->recent;
  const struct range range = range_of(record);
  if (record->length_sectors == 0)
    return false;
  if ((is_long(recent, record) || !is_free(recent, range)) && find_in_recent(recent, range))
    return true;
  return overlap->listed > 0 && find_listed(overlap, record);
}

bool overlap_enter(struct overlap *overlap, uint32_t slot, const struct block_record *record) {
  struct recent *recent = &overlap->recent;
  overlap->places[slot] = NOWHERE;
  if (record->length_sectors == 0)
    return false;
  if (recent->count == RECENT || is_long(recent, record))
    begin_recent(overlap, record->length_sectors);
  const struct range range = range_of(record);
  bool is_found = (!is_free(recent, range) && find_in_recent(recent, range)) ||
                  (overlap->listed > 0 && find_listed(overlap, record));
  set_mark(recent, mark_of(range.first >> recent->shift), range.kind);
  if (range.first >> recent->shift != (range.end - 1) >> recent->shift)
    set_mark(recent, mark_of((range.end - 1) >> recent->shift), range.kind);
  uint32_t number = recent->count++;
  recent->first[number] = range.first;
  recent->end[number] = range.end;
  recent->slots[number] = slot;
  recent->alive |= UINT64_C(1) << number;
  recent->writes |= (uint64_t)range.kind << number;
  recent->widest |= record->length_sectors - 1;
  overlap->places[slot] = (uint8_t)number;
  return is_found;
}

static void remove_node(struct overlap *overlap, const struct node *node) {
  if (node->next != NONE)
    node_of(overlap, node->next)->before = node->before;
  if (node->before != NONE) {
    node_of(overlap, node->before)->next = node->next;
    return;
  }
  if (node->next != NONE)
    overlap->heads[node->list] = node->next;
  else
    overlap->words[node->list >> WORD_BITS] &= ~(UINT64_C(1) << (node->list & (WORD_CELLS - 1)));
}

RARELY static void remove_from_lists(struct overlap *overlap, uint32_t slot) {
  const struct entry *entry = &overlap->entries[slot];
  overlap->listed--;
  if (--overlap->counts[entry->class] == 0)
    overlap->classes &= ~(1U << entry->class);
  remove_node(overlap, &entry->nodes[0]);
  if (entry->cells == CELLS_MAX)
    remove_node(overlap, &entry->nodes[1]);
}

void overlap_remove(struct overlap *overlap, uint32_t slot) {
  uint32_t place = overlap->places[slot];
  if (place < RECENT)
    overlap->recent.alive &= ~(UINT64_C(1) << place);
  else if (place == IN_LISTS)
    remove_from_lists(overlap, slot);
}

void overlap_close(struct overlap *overlap) {
  if (overlap == NULL)
    return;
  free(overlap->words);
  free(overlap->heads);
  free(overlap->entries);
  free(overlap->places);
  free(overlap);
}
