#include "play/overlap.h"

#include <stdlib.h>
#include <string.h>

/* Each size of request has a level, whose cells are at least as long: a request lies in one or two
 * of them, and is in their lists. 64 cells next to each other share a word, in which the bits of
 * those with a list are set: whatever the length, only lists that may matter are walked. */
#define LEVELS 11U                           /* cells of the last one are longer than any request */
#define CELL_BITS(level) (3U + 3U * (level)) /* sectors: 4 KiB, 32 KiB, 256 KiB ... */
#define CELLS_MAX 2U                         /* of one request */
#define WORD_BITS 6U
#define WORD_CELLS (1U << WORD_BITS)
#define WORDS_MIN 16U
#define SLOTS_A_WORD 4U
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
  uint8_t level;
  uint8_t kind;  /* READS or WRITES */
  uint8_t cells; /* lists that it is in; 0: it has no sectors */
};

/* Of cells with a list. */
struct word {
  uint64_t bits[KINDS];
};

struct overlap {
  uint32_t word_mask;             /* words, a power of two, less one */
  uint32_t levels[KINDS];         /* bits of those that have requests in flight */
  uint32_t counts[KINDS][LEVELS]; /* requests in flight */
  struct word *words;             /* cells of one hash share one */
  uint16_t *heads;                /* first node of each list: by word, cell and kind */
  struct entry *entries;          /* by slot */
  struct node *nodes;             /* CELLS_MAX by slot */
};

/* Where the bit of a cell is; those of its neighbours are beside it, in a circle. */
struct place {
  uint32_t word;
  uint32_t bit;
};

static bool writes(uint8_t operation) {
  return operation == BLOCK_WRITE || operation == BLOCK_DISCARD || operation == BLOCK_WRITE_ZEROES;
}

static uint8_t level_of(uint32_t length_sectors) {
  if (length_sectors <= 1U << CELL_BITS(0))
    return 0;
  unsigned bits = 32U - (unsigned)__builtin_clz(length_sectors - 1);
  return (uint8_t)((bits - CELL_BITS(0) + 2U) / 3U);
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
  return (struct place){.word = (uint32_t)(hash >> 40) & overlap->word_mask,
                        .bit = (uint32_t)(cell + (hash >> 32)) & (WORD_CELLS - 1)};
}

static uint64_t turned(uint64_t bits, uint32_t turn) {
  return bits << turn | bits >> (-turn & (WORD_CELLS - 1));
}

static uint32_t list_of(uint32_t word, uint32_t bit, unsigned kind) {
  return (word << WORD_BITS | bit) * KINDS + kind;
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
  overlap->words = calloc(words, sizeof *overlap->words);
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

/* Looks into the lists of these cells of a word. */
RARELY static bool find_in_word(const struct overlap *overlap, uint32_t word, uint64_t cells,
                                const struct block_record *record) {
  for (unsigned kind = writes(record->operation) ? READS : WRITES; kind < KINDS; kind++)
    for (uint64_t left = overlap->words[word].bits[kind] & cells; left != 0; left &= left - 1)
      if (find_in(overlap, list_of(word, (uint32_t)__builtin_ctzll(left), kind), record))
        return true;
  return false;
}

/* Looks at `count` cells of one word. */
static bool find_in_cells(const struct overlap *overlap, unsigned level, uint64_t cell,
                          uint64_t count, const struct block_record *record) {
  struct place place = place_of(overlap, record->target, level, cell);
  uint64_t cells = turned(UINT64_MAX >> (WORD_CELLS - count), place.bit);
  const struct word *word = &overlap->words[place.word];
  uint64_t bits = word->bits[WRITES];
  if (writes(record->operation))
    bits |= word->bits[READS];
  return (bits & cells) != 0 && find_in_word(overlap, place.word, cells, record);
}

/* Looks at cells of several words; where these are more than there are, at all that there are. */
RARELY static bool find_in_words(const struct overlap *overlap, unsigned level, uint64_t first,
                                 uint64_t last, const struct block_record *record) {
  bool is_found = false;
  if ((last - first) >> WORD_BITS > overlap->word_mask) {
    for (uint32_t word = 0; word <= overlap->word_mask && !is_found; word++)
      is_found = find_in_word(overlap, word, UINT64_MAX, record);
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

bool overlap_find(const struct overlap *overlap, const struct block_record *record) {
  uint32_t levels = overlap->levels[WRITES];
  if (writes(record->operation))
    levels |= overlap->levels[READS];
  if (record->length_sectors == 0)
    return false;
  for (; levels != 0; levels &= levels - 1) {
    unsigned level = (unsigned)__builtin_ctz(levels);
    uint64_t first = cell_of(record->sector, level);
    uint64_t last = cell_of(end_of(record) - 1, level);
    bool is_found = first >> WORD_BITS == last >> WORD_BITS
                        ? find_in_cells(overlap, level, first, last - first + 1, record)
                        : find_in_words(overlap, level, first, last, record);
    if (is_found)
      return true;
  }
  return false;
}

static void add_node(struct overlap *overlap, uint32_t at, const struct entry *entry,
                     uint64_t cell) {
  struct place place = place_of(overlap, entry->target, entry->level, cell);
  uint32_t list = list_of(place.word, place.bit, entry->kind);
  uint16_t next = overlap->heads[list];
  overlap->nodes[at] = (struct node){.next = next, .before = NONE, .list = list};
  if (next != NONE)
    overlap->nodes[next].before = (uint16_t)at;
  overlap->heads[list] = (uint16_t)at;
  overlap->words[place.word].bits[entry->kind] |= UINT64_C(1) << place.bit;
}

void overlap_add(struct overlap *overlap, uint32_t slot, const struct block_record *record) {
  struct entry *entry = &overlap->entries[slot];
  entry->cells = 0;
  if (record->length_sectors == 0)
    return;
  uint8_t level = level_of(record->length_sectors);
  uint8_t kind = writes(record->operation) ? WRITES : READS;
  uint64_t end = end_of(record);
  uint64_t cell = cell_of(record->sector, level);
  bool is_split = cell != cell_of(end - 1, level);
  *entry = (struct entry){.first = record->sector,
                          .end = end,
                          .target = record->target,
                          .level = level,
                          .kind = kind,
                          .cells = is_split ? CELLS_MAX : 1};
  overlap->counts[kind][level]++;
  overlap->levels[kind] |= 1U << level;
  add_node(overlap, slot * CELLS_MAX, entry, cell);
  if (is_split)
    add_node(overlap, slot * CELLS_MAX + 1, entry, cell + 1);
}

static void remove_node(struct overlap *overlap, const struct node *node) {
  if (node->next != NONE)
    overlap->nodes[node->next].before = node->before;
  if (node->before != NONE) {
    overlap->nodes[node->before].next = node->next;
    return;
  }
  overlap->heads[node->list] = node->next;
  uint32_t cell = node->list / KINDS;
  if (node->next == NONE)
    overlap->words[cell >> WORD_BITS].bits[node->list % KINDS] &=
        ~(UINT64_C(1) << (cell & (WORD_CELLS - 1)));
}

void overlap_remove(struct overlap *overlap, uint32_t slot) {
  struct entry *entry = &overlap->entries[slot];
  if (entry->cells == 0)
    return;
  if (--overlap->counts[entry->kind][entry->level] == 0)
    overlap->levels[entry->kind] &= ~(1U << entry->level);
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
