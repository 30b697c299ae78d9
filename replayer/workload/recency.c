#include "workload/recency.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

#define FIRST_SLOTS 1024U

/* Slots stand in the order of use; one that was used again is empty. A Fenwick tree counts the
 * used ones. When slots run out they are closed up, into twice as many if more than half are used.
 * A table of four times as many entries, hashed and probed, finds a place's slot. */
struct recency {
  uint64_t *places; /* of slots; RECENCY_NOWHERE: empty */
  uint64_t *notes;  /* of the same */
  uint32_t *tree;   /* from 1 */
  uint32_t *table;  /* slot + 1, 0: free */
  uint64_t most;
  uint64_t count;
  uint32_t slots; /* a power of two */
  uint32_t next;  /* first slot not used yet */
};

static uint32_t table_size(const struct recency *recency) { return recency->slots * 2; }

static void tree_add(struct recency *recency, uint32_t slot, uint32_t change) {
  for (uint32_t at = slot + 1; at <= recency->slots; at += at & (0U - at))
    recency->tree[at] += change;
}

/* Returns the entry of the table for the place: its own, or the free one where it belongs. */
static uint32_t *entry_of(const struct recency *recency, uint64_t place) {
  uint32_t mask = table_size(recency) - 1;
  uint32_t at = (uint32_t)hash_mix(place + 1) & mask;
  while (recency->table[at] != 0 && recency->places[recency->table[at] - 1] != place)
    at = (at + 1) & mask;
  return &recency->table[at];
}

static int make_slots(struct recency *recency, uint32_t slots) {
  recency->slots = slots;
  recency->next = 0;
  recency->places = malloc((size_t)slots * sizeof *recency->places);
  recency->notes = malloc((size_t)slots * sizeof *recency->notes);
  recency->tree = calloc((size_t)slots + 1, sizeof *recency->tree);
  recency->table = calloc(table_size(recency), sizeof *recency->table);
  return recency->places && recency->notes && recency->tree && recency->table ? 0 : -ENOMEM;
}

static void free_slots(struct recency *recency) {
  free(recency->places);
  free(recency->notes);
  free(recency->tree);
  free(recency->table);
}

int recency_new(uint64_t most, struct recency **out) {
  if (most == 0 || most > (1U << 26))
    return -EINVAL;
  struct recency *recency = calloc(1, sizeof *recency);
  if (recency == NULL)
    return -ENOMEM;
  recency->most = most;
  if (make_slots(recency, FIRST_SLOTS) != 0) {
    recency_free(recency);
    return -ENOMEM;
  }
  *out = recency;
  return 0;
}

uint64_t recency_count(const struct recency *recency) { return recency->count; }

/* Returns the slot of the place that stands at `rank` from the oldest, from 0. */
static uint32_t slot_at(const struct recency *recency, uint64_t rank) {
  uint32_t slot = 0;
  for (uint32_t step = recency->slots; step > 0; step >>= 1)
    if (slot + step <= recency->slots && recency->tree[slot + step] <= rank) {
      slot += step;
      rank -= recency->tree[slot];
    }
  return slot;
}

uint64_t recency_at(const struct recency *recency, uint64_t distance) {
  return recency->places[slot_at(recency, recency->count - 1 - distance)];
}

uint64_t recency_back(const struct recency *recency, uint64_t place) {
  uint32_t entry = *entry_of(recency, place);
  uint64_t before = 0;
  /* An entry is the slot + 1, which is the slot's place in the tree. */
  for (uint32_t at = entry; at > 0; at -= at & (0U - at))
    before += recency->tree[at];
  return entry == 0 ? 0 : recency->count - before + 1;
}

int recency_has(const struct recency *recency, uint64_t place) {
  return *entry_of(recency, place) != 0;
}

uint64_t recency_note(const struct recency *recency, uint64_t place) {
  return recency->notes[*entry_of(recency, place) - 1];
}

static void append(struct recency *recency, uint64_t place, uint64_t note, uint32_t *entry) {
  uint32_t slot = recency->next++;
  recency->places[slot] = place;
  recency->notes[slot] = note;
  *entry = slot + 1;
  tree_add(recency, slot, 1);
  recency->count++;
}

/* An entry that led to the slot stays, and leads others past it. */
static void empty(struct recency *recency, uint32_t slot) {
  recency->places[slot] = RECENCY_NOWHERE;
  tree_add(recency, slot, UINT32_MAX);
  recency->count--;
}

/* Closes up the used slots, without the oldest `forgotten` of them. */
static int close_up(struct recency *recency, uint64_t forgotten) {
  struct recency old = *recency;
  uint32_t slots = old.count - forgotten > old.slots / 2 ? old.slots * 2 : old.slots;
  recency->count = 0;
  if (make_slots(recency, slots) != 0) {
    free_slots(recency);
    *recency = old;
    return -ENOMEM;
  }
  for (uint32_t slot = 0; slot < old.next; slot++)
    if (old.places[slot] != RECENCY_NOWHERE) {
      if (forgotten > 0)
        forgotten--;
      else
        append(recency, old.places[slot], old.notes[slot], entry_of(recency, old.places[slot]));
    }
  free_slots(&old);
  return 0;
}

int recency_use(struct recency *recency, uint64_t place, uint64_t note) {
  if (recency->next == recency->slots) {
    uint64_t over = recency->count > recency->most ? recency->count - recency->most : 0;
    int status = close_up(recency, over);
    if (status != 0)
      return status;
  }
  uint32_t *entry = entry_of(recency, place);
  uint32_t before = *entry;
  append(recency, place, note, entry);
  if (before != 0)
    empty(recency, before - 1);
  return 0;
}

void recency_forget(struct recency *recency, uint64_t place) {
  uint32_t entry = *entry_of(recency, place);
  if (entry != 0)
    empty(recency, entry - 1);
}

void recency_free(struct recency *recency) {
  if (recency != NULL)
    free_slots(recency);
  free(recency);
}
