#include "play/overlap.h"

#include <stdlib.h>
#include <string.h>

/* Each size of request has a level, whose cells are at least as long: a request lies in one or two
 * of them, and is in their lists. 64 cells next to each other share a word, in which the bits of
 * those with a list are set: whatever the length, only lists that may matter are walked. */
#define LEVELS 11U                           /* cells of the last one are longer than any request */
#define CELL_BITS(level) (3U + 3U * (level)) /* sectors: 4 KiB, 32 KiB, 256 KiB ... */
#define CELLS_MAX 2U                         /* of one request */
#define WORD_BITS 6U                         /* cells of a word */
#define WORDS_MIN 16U
#define SLOTS_A_WORD 4U
#define NONE UINT16_MAX

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

struct overlap {
  uint32_t word_bits;             /* 2^word_bits words */
  uint32_t levels[KINDS];         /* bits of those that have requests in flight */
  uint32_t counts[KINDS][LEVELS]; /* requests in flight */
  uint64_t (*words)[KINDS];       /* bits of cells with a list; cells with one hash share them */
  uint16_t *heads;                /* first node of each list: by word, cell and kind */
  struct entry *entries;          /* by slot */
  struct node *nodes;             /* CELLS_MAX by slot */
};

/* Where the bits of 64 cells are. */
struct place {
  uint32_t word;
  uint32_t turn; /* cells of equal distance, as those of stripes, would else meet in one bit */
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

static struct entry entry_of(const struct block_record *record) {
  struct entry entry = {.first = record->sector,
                        .end = record->sector + record->length_sectors,
                        .target = record->target,
                        .kind = writes(record->operation) ? WRITES : READS};
  if (record->length_sectors == 0)
    return entry;
  entry.level = level_of(record->length_sectors);
  bool is_split = cell_of(entry.first, entry.level) != cell_of(entry.end - 1, entry.level);
  entry.cells = is_split ? 2 : 1;
  return entry;
}

static struct place place_of(const struct overlap *overlap, uint16_t target, unsigned level,
                             uint64_t group) {
  uint64_t key = (group << 10 | (uint64_t)target << 4 | level) + 1;
  uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
  return (struct place){.word = (uint32_t)(hash >> (64U - overlap->word_bits)),
                        .turn = (uint32_t)(hash >> 32) & 63U};
}

static uint64_t turned(uint64_t bits, uint32_t turn) {
  return bits << turn | bits >> (-turn & 63U);
}

static uint32_t list_of(uint32_t word, uint32_t bit, unsigned kind) {
  return (word << WORD_BITS | bit) * KINDS + kind;
}

struct overlap *overlap_open(uint32_t depth) {
  struct overlap *overlap = calloc(1, sizeof *overlap);
  if (overlap == NULL)
    return NULL;
  uint32_t words = WORDS_MIN;
  for (overlap->word_bits = 4; words * SLOTS_A_WORD < depth; overlap->word_bits++)
    words *= 2;
  size_t heads = (size_t)words * 64 * KINDS;
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

static bool find_in(const struct overlap *overlap, uint32_t list, const struct entry *wanted) {
  for (uint32_t at = overlap->heads[list]; at != NONE; at = overlap->nodes[at].next) {
    const struct entry *entry = &overlap->entries[at / CELLS_MAX];
    if (entry->target == wanted->target && entry->first < wanted->end && wanted->first < entry->end)
      return true;
  }
  return false;
}

/* Looks into the lists of these cells of a word. */
static bool find_in_word(const struct overlap *overlap, uint32_t word, uint64_t cells,
                         const struct entry *wanted) {
  for (unsigned kind = wanted->kind == WRITES ? READS : WRITES; kind < KINDS; kind++)
    for (uint64_t left = overlap->words[word][kind] & cells; left != 0; left &= left - 1)
      if (find_in(overlap, list_of(word, (uint32_t)__builtin_ctzll(left), kind), wanted))
        return true;
  return false;
}

/* Of a level whose words are fewer than those that the request covers: each of all is looked at. */
static bool find_anywhere(const struct overlap *overlap, const struct entry *wanted) {
  for (uint32_t word = 0; word < 1U << overlap->word_bits; word++)
    if (find_in_word(overlap, word, UINT64_MAX, wanted))
      return true;
  return false;
}

static bool find_in_level(const struct overlap *overlap, unsigned level,
                          const struct entry *wanted) {
  uint64_t first = cell_of(wanted->first, level);
  uint64_t last = cell_of(wanted->end - 1, level);
  if ((last - first) >> WORD_BITS >> overlap->word_bits != 0)
    return find_anywhere(overlap, wanted);
  for (uint64_t group = first >> WORD_BITS; group <= last >> WORD_BITS; group++) {
    struct place place = place_of(overlap, wanted->target, level, group);
    uint64_t cells = UINT64_MAX;
    if (group == first >> WORD_BITS)
      cells <<= first & 63U;
    if (group == last >> WORD_BITS)
      cells &= UINT64_MAX >> (63U - (last & 63U));
    if (find_in_word(overlap, place.word, turned(cells, place.turn), wanted))
      return true;
  }
  return false;
}

bool overlap_find(const struct overlap *overlap, const struct block_record *record) {
  struct entry wanted = entry_of(record);
  uint32_t levels = overlap->levels[WRITES];
  if (wanted.kind == WRITES)
    levels |= overlap->levels[READS];
  for (; wanted.cells > 0 && levels != 0; levels &= levels - 1)
    if (find_in_level(overlap, (unsigned)__builtin_ctz(levels), &wanted))
      return true;
  return false;
}

void overlap_add(struct overlap *overlap, uint32_t slot, const struct block_record *record) {
  struct entry *entry = &overlap->entries[slot];
  *entry = entry_of(record);
  if (entry->cells == 0)
    return;
  overlap->counts[entry->kind][entry->level]++;
  overlap->levels[entry->kind] |= 1U << entry->level;
  for (uint32_t i = 0; i < entry->cells; i++) {
    uint64_t cell = cell_of(entry->first, entry->level) + i;
    struct place place = place_of(overlap, entry->target, entry->level, cell >> WORD_BITS);
    uint32_t bit = ((uint32_t)cell + place.turn) & 63U;
    uint32_t list = list_of(place.word, bit, entry->kind);
    uint16_t at = (uint16_t)(slot * CELLS_MAX + i);
    uint16_t next = overlap->heads[list];
    overlap->nodes[at] = (struct node){.next = next, .before = NONE, .list = list};
    if (next != NONE)
      overlap->nodes[next].before = at;
    overlap->heads[list] = at;
    overlap->words[place.word][entry->kind] |= UINT64_C(1) << bit;
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
  uint32_t cell = node->list / KINDS;
  if (node->next == NONE)
    overlap->words[cell >> WORD_BITS][node->list % KINDS] &= ~(UINT64_C(1) << (cell & 63U));
}

void overlap_remove(struct overlap *overlap, uint32_t slot) {
  struct entry *entry = &overlap->entries[slot];
  if (entry->cells == 0)
    return;
  if (--overlap->counts[entry->kind][entry->level] == 0)
    overlap->levels[entry->kind] &= ~(1U << entry->level);
  for (uint32_t i = 0; i < entry->cells; i++)
    remove_node(overlap, &overlap->nodes[slot * CELLS_MAX + i]);
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
