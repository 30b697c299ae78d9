#include "read/pieces.h"

#include <errno.h>
#include <stdlib.h>

#include "common/hash.h"

#define FIRST_CAPACITY 1024u

int pieces_open(struct pieces *pieces) {
  *pieces = (struct pieces){.free_list = NO_PIECE, .buckets = FIRST_CAPACITY};
  pieces->by_begin = malloc(pieces->buckets * sizeof(*pieces->by_begin));
  pieces->by_end = malloc(pieces->buckets * sizeof(*pieces->by_end));
  if (!pieces->by_begin || !pieces->by_end)
    return -ENOMEM;
  for (uint32_t i = 0; i < pieces->buckets; i++)
    pieces->by_begin[i] = pieces->by_end[i] = NO_PIECE;
  return 0;
}

void pieces_close(struct pieces *pieces) {
  free(pieces->pool);
  free(pieces->by_begin);
  free(pieces->by_end);
  *pieces = (struct pieces){0};
}

static int grow_pool(struct pieces *pieces) {
  uint32_t capacity = pieces->capacity ? pieces->capacity * 2 : FIRST_CAPACITY;
  struct piece *pool = realloc(pieces->pool, capacity * sizeof(*pool));
  if (!pool)
    return -ENOMEM;
  pieces->pool = pool;
  pieces->capacity = capacity;
  return 0;
}

uint32_t pieces_new(struct pieces *pieces) {
  uint32_t index = pieces->free_list;
  if (index != NO_PIECE)
    pieces->free_list = pieces->pool[index].next_at_begin;
  else if (pieces->used < pieces->capacity || grow_pool(pieces) == 0)
    index = pieces->used++;
  else
    return NO_PIECE;
  pieces->pool[index] = (struct piece){.row = NO_ROW,
                                       .first_child = NO_PIECE,
                                       .last_child = NO_PIECE,
                                       .next_child = NO_PIECE,
                                       .next_of_row = NO_PIECE,
                                       .previous_of_row = NO_PIECE,
                                       .flushed_ns = NO_TIME};
  return index;
}

void pieces_free(struct pieces *pieces, uint32_t index) {
  pieces->pool[index].next_at_begin = pieces->free_list;
  pieces->free_list = index;
}

static uint32_t bucket_of(const struct pieces *pieces, uint32_t device, uint64_t sector) {
  return (uint32_t)hash_mix(sector ^ ((uint64_t)device << 48)) & (pieces->buckets - 1);
}

static void enter(struct pieces *pieces, uint32_t index) {
  struct piece *piece = &pieces->pool[index];
  uint32_t *begin = &pieces->by_begin[bucket_of(pieces, piece->device, piece->begin)];
  uint32_t *end = &pieces->by_end[bucket_of(pieces, piece->device, piece->end)];
  piece->next_at_begin = *begin;
  *begin = index;
  piece->next_at_end = *end;
  *end = index;
}

static int grow_tables(struct pieces *pieces) {
  struct pieces bigger = *pieces;
  bigger.buckets *= 2;
  bigger.by_begin = malloc(bigger.buckets * sizeof(*bigger.by_begin));
  bigger.by_end = malloc(bigger.buckets * sizeof(*bigger.by_end));
  if (!bigger.by_begin || !bigger.by_end) {
    free(bigger.by_begin);
    free(bigger.by_end);
    return -ENOMEM;
  }
  for (uint32_t i = 0; i < bigger.buckets; i++)
    bigger.by_begin[i] = bigger.by_end[i] = NO_PIECE;
  for (uint32_t i = 0; i < pieces->buckets; i++)
    for (uint32_t index = pieces->by_begin[i], next; index != NO_PIECE; index = next) {
      next = pieces->pool[index].next_at_begin;
      enter(&bigger, index);
    }
  free(pieces->by_begin);
  free(pieces->by_end);
  *pieces = bigger;
  return 0;
}

int pieces_link(struct pieces *pieces, uint32_t index) {
  if (pieces->linked >= pieces->buckets && grow_tables(pieces))
    return -ENOMEM;
  enter(pieces, index);
  pieces->linked++;
  return 0;
}

void pieces_unlink(struct pieces *pieces, uint32_t index) {
  const struct piece *piece = &pieces->pool[index];
  uint32_t *link = &pieces->by_begin[bucket_of(pieces, piece->device, piece->begin)];
  while (*link != index)
    link = &pieces->pool[*link].next_at_begin;
  *link = piece->next_at_begin;
  link = &pieces->by_end[bucket_of(pieces, piece->device, piece->end)];
  while (*link != index)
    link = &pieces->pool[*link].next_at_end;
  *link = piece->next_at_end;
  pieces->linked--;
}

static bool fits(const struct piece *piece, const struct piece_key *key) {
  bool has_length = key->sectors == ANY_LENGTH || piece->end - piece->begin == key->sectors;
  return piece->device == key->device && piece->kind == key->kind &&
         (piece->state & key->states) != 0 && has_length;
}

/* Both are candidates; says whether `left` is the better one. */
static bool is_better(const struct piece *left, const struct piece *right, uint32_t pid) {
  bool left_same = left->pid == pid;
  bool right_same = right->pid == pid;
  return left_same != right_same ? left_same : left->row > right->row;
}

uint32_t pieces_find(const struct pieces *pieces, const struct piece_key *key) {
  uint32_t best = NO_PIECE;
  uint32_t index = pieces->by_begin[bucket_of(pieces, key->device, key->sector)];
  for (; index != NO_PIECE; index = pieces->pool[index].next_at_begin) {
    const struct piece *piece = &pieces->pool[index];
    bool is_candidate = piece->begin == key->sector && fits(piece, key);
    if (is_candidate && (best == NO_PIECE || is_better(piece, &pieces->pool[best], key->pid)))
      best = index;
  }
  return best;
}

uint32_t pieces_find_end(const struct pieces *pieces, const struct piece_key *key) {
  uint32_t best = NO_PIECE;
  uint32_t index = pieces->by_end[bucket_of(pieces, key->device, key->sector)];
  for (; index != NO_PIECE; index = pieces->pool[index].next_at_end) {
    const struct piece *piece = &pieces->pool[index];
    bool is_candidate = piece->end == key->sector && piece->begin < piece->end && fits(piece, key);
    if (is_candidate && (best == NO_PIECE || is_better(piece, &pieces->pool[best], key->pid)))
      best = index;
  }
  return best;
}
