#include "play/overlap.h"

#include <stdlib.h>
#include <string.h>

/* Each size of request has a level, whose cells are at least as long: a request lies in one or two
 * of them, and is in their lists. 64 cells next to each other share a word, in which the bits of
 * those with a list are set: whatever the length, only lists that may matter are walked. */
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
  uint16_t next;   /* node, or NONE */
  uint16_t before; /* node, or NONE: the list begins here */
  uint32_t list;
};

struct entry {
  uint64_t first; /* sector */
  uint64_t end;   /* the sector behind it */
  uint16_t target;
  uint8_t class; /* of its kind and level */
  uint8_t cells; /* lists that it is in; 0: it has no sectors */
};

struct overlap {
  uint32_t word_mask;              /* places of words, a power of two, less one */
  uint32_t classes;                /* bits of those that have requests in flight */
  uint32_t counts[KINDS * LEVELS]; /* requests in flight by class */
  uint64_t *words;                 /* by place and kind: bits of cells with a list */
  uint16_t *heads;                 /* by word and bit: first node of the list */
  struct entry *entries;           /* by slot */
  struct node *nodes;              /* CELLS_MAX by slot */
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
  if (length_sectors <= 1U << CELL_BITS(0))
    return 0;
  unsigned bits = 32U - (unsigned)__builtin_clz(length_sectors - 1);
  return (bits - CELL_BITS(0) + 2U) / 3U;
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
  overlap->entries = calloc(depth, sizeof *overlap->entries);
  overlap->nodes = calloc((size_t)depth * CELLS_MAX, sizeof *overlap->nodes);
  if (overlap->words == NULL || overlap->heads == NULL || overlap->entries == NULL ||
      overlap->nodes == NULL) {
    overlap_close(overlap);
    return NULL;
  }
  memset(overlap->heads, 0xff, heads * sizeof *overlap->heads); /* NONE; touches every page */
  return overlap;
}

static bool find_in(const struct overlap *overlap, uint32_t list,
                    const struct block_record *record) {
  for (uint32_t at = overlap->heads[list]; at != NONE; at = overlap->nodes[at].next) {
    const struct entry *entry = &overlap->entries[at / CELLS_MAX];
    if (entry->target == record->target && entry->first < end_of(record) &&
        record->sector < entry->end)
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

__attribute__((noinline)) static bool find_in_levels(const struct overlap *overlap, uint32_t levels,
                                                     const struct block_record *record) {
  for (; levels != 0; levels &= levels - 1)
    if (find_in_level(overlap, (unsigned)__builtin_ctz(levels), record))
      return true;
  return false;
}

/* Most often there is one level, in a function without a loop. */
bool overlap_find(const struct overlap *overlap, const struct block_record *record) {
  uint32_t levels = overlap->classes >> LEVELS;
  if (kind_of(record->operation) == WRITES)
    levels |= overlap->classes & ((1U << LEVELS) - 1);
  if (levels == 0 || record->length_sectors == 0)
    return false;
  return (levels & (levels - 1)) != 0
             ? find_in_levels(overlap, levels, record)
             : find_in_level(overlap, (unsigned)__builtin_ctz(levels), record);
}

static void add_node(struct overlap *overlap, uint32_t at, const struct block_record *record,
                     unsigned level, uint64_t cell) {
  struct place place = place_of(overlap, record->target, level, cell);
  uint32_t word = place.word + kind_of(record->operation);
  uint32_t list = word << WORD_BITS | place.bit;
  uint16_t next = overlap->heads[list];
  overlap->nodes[at] = (struct node){.next = next, .before = NONE, .list = list};
  if (next != NONE)
    overlap->nodes[next].before = (uint16_t)at;
  overlap->heads[list] = (uint16_t)at;
  overlap->words[word] |= UINT64_C(1) << place.bit;
}

void overlap_add(struct overlap *overlap, uint32_t slot, const struct block_record *record) {
  struct entry *entry = &overlap->entries[slot];
  entry->cells = 0;
  if (record->length_sectors == 0)
    return;
  unsigned level = level_of(record->length_sectors);
  unsigned class = kind_of(record->operation) * LEVELS + level;
  uint64_t cell = cell_of(record->sector, level);
  entry->first = record->sector;
  entry->end = end_of(record);
  entry->target = record->target;
  entry->class = (uint8_t)class;
  entry->cells = 1;
  overlap->counts[class]++;
  overlap->classes |= 1U << class;
  add_node(overlap, slot * CELLS_MAX, record, level, cell);
  if (cell != cell_of(end_of(record) - 1, level)) {
    entry->cells = 2;
    add_node(overlap, slot * CELLS_MAX + 1, record, level, cell + 1);
  }
}

static void remove_node(struct overlap *overlap, const struct node *node) {
  if (node->next != NONE)
    overlap->nodes[node->next].before = node->before;
  if (node->before != NONE) {
    overlap->nodes[node->before].next = node->next;
    return;
  }
  overlap->heads[node->list] = node->next;
  if (node->next == NONE)
    overlap->words[node->list >> WORD_BITS] &= ~(UINT64_C(1) << (node->list & (WORD_CELLS - 1)));
}

void overlap_remove(struct overlap *overlap, uint32_t slot) {
  struct entry *entry = &overlap->entries[slot];
  if (entry->cells == 0)
    return;
  if (--overlap->counts[entry->class] == 0)
    overlap->classes &= ~(1U << entry->class);
  const struct node *nodes = &overlap->nodes[(size_t)slot * CELLS_MAX];
  remove_node(overlap, &nodes[0]);
  if (entry->cells == CELLS_MAX)
    remove_node(overlap, &nodes[1]);
  entry->cells = 0;
}

void overlap_close(struct overlap *overlap) {
  if (overlap == NULL)
    return;
  free(overlap->words);
  free(overlap->heads);
  free(overlap->entries);
  free(overlap->nodes);
  free(overlap);
}
