#include "play/overlap.h"

#include <stdlib.h>
#include <string.h>

#define GRAIN_BITS 9U /* sectors of a grain: 256 KiB */
#define GRAINS_MAX 5U /* of one request: up to 1 MiB wherever it starts; wider ones stand apart */
#define BUCKET_BITS 12U
#define BUCKETS (1U << BUCKET_BITS)
#define NONE UINT32_MAX

const char *const overlap_words[] = {"allow", "order", "drop", NULL};

/* A request in flight in the list of one of its grains. Node n belongs to slot n / GRAINS_MAX. */
struct node {
  uint32_t next;
  uint32_t before; /* node, or NONE: the bucket points here */
  uint32_t bucket;
};

struct entry {
  uint64_t first; /* sector */
  uint64_t end;   /* the sector behind it */
  uint16_t target;
  bool is_write;
  bool is_wide;
  uint32_t grains; /* lists that it is in; 0: it has no sectors */
};

struct overlap {
  uint32_t depth;
  uint32_t wide;               /* requests in flight that are in the list of wide ones */
  uint32_t heads[BUCKETS + 1]; /* the last one: wide requests */
  struct entry *entries;       /* by slot */
  struct node *nodes;          /* GRAINS_MAX by slot */
};

static bool writes(uint8_t operation) {
  return operation == BLOCK_WRITE || operation == BLOCK_DISCARD || operation == BLOCK_WRITE_ZEROES;
}

static struct entry entry_of(const struct block_record *record) {
  struct entry entry = {.first = record->sector,
                        .end = record->sector + record->length_sectors,
                        .target = record->target,
                        .is_write = writes(record->operation)};
  if (record->length_sectors == 0)
    return entry;
  uint64_t grains = ((entry.end - 1) >> GRAIN_BITS) - (entry.first >> GRAIN_BITS) + 1;
  entry.is_wide = grains > GRAINS_MAX;
  entry.grains = entry.is_wide ? 1 : (uint32_t)grains;
  return entry;
}

static uint32_t bucket_of(const struct entry *entry, uint32_t grain) {
  if (entry->is_wide)
    return BUCKETS;
  uint64_t key = (((entry->first >> GRAIN_BITS) + grain) << 6) + entry->target;
  return (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - BUCKET_BITS));
}

struct overlap *overlap_open(uint32_t depth) {
  struct overlap *overlap = calloc(1, sizeof *overlap);
  if (overlap == NULL)
    return NULL;
  overlap->depth = depth;
  overlap->entries = calloc(depth, sizeof *overlap->entries);
  overlap->nodes = calloc((size_t)depth * GRAINS_MAX, sizeof *overlap->nodes);
  if (overlap->entries == NULL || overlap->nodes == NULL) {
    overlap_close(overlap);
    return NULL;
  }
  memset(overlap->heads, 0xff, sizeof overlap->heads); /* NONE */
  return overlap;
}

static bool conflicts(const struct entry *a, const struct entry *b) {
  return a->target == b->target && (a->is_write || b->is_write) && a->first < b->end &&
         b->first < a->end;
}

static bool find_in(const struct overlap *overlap, uint32_t bucket, const struct entry *entry) {
  for (uint32_t at = overlap->heads[bucket]; at != NONE; at = overlap->nodes[at].next)
    if (conflicts(&overlap->entries[at / GRAINS_MAX], entry))
      return true;
  return false;
}

/* A wide request is compared with all that are in flight: there are few of them. */
static bool find_all(const struct overlap *overlap, const struct entry *entry) {
  for (uint32_t slot = 0; slot < overlap->depth; slot++)
    if (overlap->entries[slot].grains > 0 && conflicts(&overlap->entries[slot], entry))
      return true;
  return false;
}

bool overlap_find(const struct overlap *overlap, const struct block_record *record) {
  struct entry entry = entry_of(record);
  if (entry.is_wide)
    return find_all(overlap, &entry);
  bool is_found = entry.grains > 0 && overlap->wide > 0 && find_in(overlap, BUCKETS, &entry);
  for (uint32_t grain = 0; grain < entry.grains && !is_found; grain++)
    is_found = find_in(overlap, bucket_of(&entry, grain), &entry);
  return is_found;
}

void overlap_add(struct overlap *overlap, uint32_t slot, const struct block_record *record) {
  struct entry *entry = &overlap->entries[slot];
  *entry = entry_of(record);
  overlap->wide += entry->is_wide;
  for (uint32_t grain = 0; grain < entry->grains; grain++) {
    uint32_t at = slot * GRAINS_MAX + grain;
    uint32_t bucket = bucket_of(entry, grain);
    uint32_t next = overlap->heads[bucket];
    overlap->nodes[at] = (struct node){.next = next, .before = NONE, .bucket = bucket};
    if (next != NONE)
      overlap->nodes[next].before = at;
    overlap->heads[bucket] = at;
  }
}

void overlap_remove(struct overlap *overlap, uint32_t slot) {
  struct entry *entry = &overlap->entries[slot];
  overlap->wide -= entry->is_wide;
  for (uint32_t grain = 0; grain < entry->grains; grain++) {
    const struct node *node = &overlap->nodes[slot * GRAINS_MAX + grain];
    if (node->before == NONE)
      overlap->heads[node->bucket] = node->next;
    else
      overlap->nodes[node->before].next = node->next;
    if (node->next != NONE)
      overlap->nodes[node->next].before = node->before;
  }
  entry->grains = 0;
}

void overlap_close(struct overlap *overlap) {
  if (overlap == NULL)
    return;
  free(overlap->entries);
  free(overlap->nodes);
  free(overlap);
}
