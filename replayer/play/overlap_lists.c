#include "play/overlap_lists.h"

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

struct overlap_lists {
  uint32_t word_mask;                      /* places of words, a power of two, less one */
  uint32_t classes;                        /* bits of those that have requests in flight */
  uint32_t counts[OVERLAP_KINDS * LEVELS]; /* requests in flight by class */
  uint64_t *words;                         /* by place and kind: bits of cells with a list */
  uint16_t *heads;       /* by word and bit: first node of the list, if there is one */
  struct entry *entries; /* by slot */
};

/* Where the bit of a cell is; those of its neighbours are beside it, in a circle. */
struct place {
  uint32_t word; /* that of OVERLAP_READS; OVERLAP_WRITES follows */
  uint32_t bit;
};

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
static struct place place_of(const struct overlap_lists *lists, uint16_t target, unsigned level,
                             uint64_t cell) {
  uint64_t key = (cell >> WORD_BITS << 10 | (uint64_t)target << 4 | level) + 1;
  uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
  return (struct place){.word = ((uint32_t)(hash >> 40) & lists->word_mask) * OVERLAP_KINDS,
                        .bit = (uint32_t)(cell + (hash >> 32)) & (WORD_CELLS - 1)};
}

static uint64_t turned(uint64_t bits, uint32_t turn) {
  return bits << turn | bits >> (-turn & (WORD_CELLS - 1));
}

struct overlap_lists *overlap_lists_open(uint32_t depth) {
  struct overlap_lists *lists = calloc(1, sizeof *lists);
  if (lists == NULL)
    return NULL;
  uint32_t words = WORDS_MIN;
  while (words * SLOTS_A_WORD < depth)
    words *= 2;
  lists->word_mask = words - 1;
  size_t heads = (size_t)words * WORD_CELLS * OVERLAP_KINDS;
  lists->words = calloc((size_t)words * OVERLAP_KINDS, sizeof *lists->words);
  lists->heads = malloc(heads * sizeof *lists->heads);
  lists->entries = aligned_alloc(_Alignof(struct entry), depth * sizeof *lists->entries);
  if (lists->words == NULL || lists->heads == NULL || lists->entries == NULL) {
    overlap_lists_close(lists);
    return NULL;
  }
  memset(lists->entries, 0, depth * sizeof *lists->entries);
  memset(lists->heads, 0xff, heads * sizeof *lists->heads); /* touches every page before the run */
  return lists;
}

static struct node *node_of(const struct overlap_lists *lists, uint32_t at) {
  return &lists->entries[at / CELLS_MAX].nodes[at % CELLS_MAX];
}

static bool find_in(const struct overlap_lists *lists, uint32_t list,
                    const struct block_record *record) {
  for (uint32_t at = lists->heads[list]; at != NONE; at = node_of(lists, at)->next) {
    const struct entry *entry = &lists->entries[at / CELLS_MAX];
    if (entry->target == record->target && entry->first < end_of(record) &&
        record->sector < entry->first + entry->length)
      return true;
  }
  return false;
}

/* Looks into the lists of these cells of a place. */
RARELY static bool find_in_lists(const struct overlap_lists *lists, uint32_t place, uint64_t cells,
                                 const struct block_record *record) {
  for (unsigned kind = overlap_kind(record->operation) == OVERLAP_WRITES ? OVERLAP_READS
                                                                         : OVERLAP_WRITES;
       kind < OVERLAP_KINDS; kind++)
    for (uint64_t left = lists->words[place + kind] & cells; left != 0; left &= left - 1)
      if (find_in(lists, (place + kind) << WORD_BITS | (uint32_t)__builtin_ctzll(left), record))
        return true;
  return false;
}

/* Looks at `count` cells of one word. */
static bool find_in_cells(const struct overlap_lists *lists, unsigned level, uint64_t cell,
                          uint64_t count, const struct block_record *record) {
  struct place place = place_of(lists, record->target, level, cell);
  uint64_t cells = turned(UINT64_MAX >> (WORD_CELLS - count), place.bit);
  uint64_t bits = lists->words[place.word + OVERLAP_WRITES];
  if (overlap_kind(record->operation) == OVERLAP_WRITES)
    bits |= lists->words[place.word + OVERLAP_READS];
  return (bits & cells) == 0 ? false : find_in_lists(lists, place.word, cells, record);
}

/* Looks at cells of several words; where these are more than there are, at all that there are. */
RARELY static bool find_in_words(const struct overlap_lists *lists, unsigned level, uint64_t first,
                                 uint64_t last, const struct block_record *record) {
  bool is_found = false;
  if ((last - first) >> WORD_BITS > lists->word_mask) {
    for (uint32_t place = 0; place <= lists->word_mask && !is_found; place++)
      is_found = find_in_lists(lists, place * OVERLAP_KINDS, UINT64_MAX, record);
    return is_found;
  }
  while (first <= last && !is_found) {
    uint64_t end = (first | (WORD_CELLS - 1)) + 1;
    uint64_t count = (last < end ? last + 1 : end) - first;
    is_found = find_in_cells(lists, level, first, count, record);
    first = end;
  }
  return is_found;
}

static bool find_in_level(const struct overlap_lists *lists, unsigned level,
                          const struct block_record *record) {
  uint64_t first = cell_of(record->sector, level);
  uint64_t last = cell_of(end_of(record) - 1, level);
  if (first >> WORD_BITS != last >> WORD_BITS)
    return find_in_words(lists, level, first, last, record);
  return find_in_cells(lists, level, first, last - first + 1, record);
}

bool overlap_lists_find(const struct overlap_lists *lists, const struct block_record *record) {
  uint32_t levels = lists->classes >> LEVELS;
  if (overlap_kind(record->operation) == OVERLAP_WRITES)
    levels |= lists->classes & ((1U << LEVELS) - 1);
  for (; levels != 0; levels &= levels - 1)
    if (find_in_level(lists, (unsigned)__builtin_ctz(levels), record))
      return true;
  return false;
}

static void add_node(struct overlap_lists *lists, uint32_t at, const struct block_record *record,
                     unsigned kind, unsigned level, uint64_t cell) {
  struct place place = place_of(lists, record->target, level, cell);
  uint64_t bit = UINT64_C(1) << place.bit;
  uint64_t *word = &lists->words[place.word + kind];
  uint32_t list = (place.word + kind) << WORD_BITS | place.bit;
  uint16_t next = (*word & bit) != 0 ? lists->heads[list] : NONE;
  if (next != NONE)
    node_of(lists, next)->before = (uint16_t)at;
  *node_of(lists, at) = (struct node){.list = list, .next = next, .before = NONE};
  lists->heads[list] = (uint16_t)at;
  *word |= bit;
}

void overlap_lists_add(struct overlap_lists *lists, uint32_t slot,
                       const struct block_record *record) {
  unsigned kind = overlap_kind(record->operation);
  unsigned level = level_of(record->length_sectors);
  unsigned class = kind * LEVELS + level;
  uint64_t cell = cell_of(record->sector, level);
  bool has_two = cell != cell_of(end_of(record) - 1, level);
  lists->entries[slot] = (struct entry){.first = record->sector,
                                        .length = record->length_sectors,
                                        .target = record->target,
                                        .class = (uint8_t)class,
                                        .cells = has_two ? CELLS_MAX : 1};
  lists->counts[class]++;
  lists->classes |= 1U << class;
  add_node(lists, slot * CELLS_MAX, record, kind, level, cell);
  if (has_two)
    add_node(lists, slot * CELLS_MAX + 1, record, kind, level, cell + 1);
}

static void remove_node(struct overlap_lists *lists, const struct node *node) {
  if (node->next != NONE)
    node_of(lists, node->next)->before = node->before;
  if (node->before != NONE) {
    node_of(lists, node->before)->next = node->next;
    return;
  }
  if (node->next != NONE)
    lists->heads[node->list] = node->next;
  else
    lists->words[node->list >> WORD_BITS] &= ~(UINT64_C(1) << (node->list & (WORD_CELLS - 1)));
}

void overlap_lists_remove(struct overlap_lists *lists, uint32_t slot) {
  const struct entry *entry = &lists->entries[slot];
  if (--lists->counts[entry->class] == 0)
    lists->classes &= ~(1U << entry->class);
  remove_node(lists, &entry->nodes[0]);
  if (entry->cells == CELLS_MAX)
    remove_node(lists, &entry->nodes[1]);
}

void overlap_lists_close(struct overlap_lists *lists) {
  if (lists == NULL)
    return;
  free(lists->words);
  free(lists->heads);
  free(lists->entries);
  free(lists);
}
