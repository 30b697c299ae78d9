#include "play/waits.h"

#include <stdlib.h>
#include <string.h>

#include "common/heap.h"

#define NONE UINT32_MAX
#define HEADS 8192U /* lists of those that wait, by the position that they wait for */

/* An entry whose time is known. */
struct due {
  uint64_t due_ns;
  uint64_t position;
  uint32_t index; /* of the entry */
};

static bool is_due_before(const struct due *a, const struct due *b) {
  return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->position < b->position;
}

HEAP_DEFINE(due, struct due, 2, is_due_before)

struct waits {
  uint32_t due_count;    /* entries of `due` */
  uint32_t follow_count; /* entries in lists */
  uint32_t free;         /* first of the free entries, NONE */
  uint32_t heads[HEADS];
  struct due *due; /* a heap, the first one on top */
  struct waiting entries[];
};

struct waits *waits_open(uint32_t capacity) {
  struct waits *waits = calloc(1, sizeof *waits + capacity * sizeof *waits->entries);
  if (waits == NULL)
    return NULL;
  waits->due = malloc(capacity * sizeof *waits->due);
  if (waits->due == NULL) {
    free(waits);
    return NULL;
  }
  memset(waits->due, 0, capacity * sizeof *waits->due); /* touches every page before the run */
  memset(waits->heads, 0xff, sizeof waits->heads);
  for (uint32_t i = 0; i < capacity; i++)
    waits->entries[i].next =
        i + 1 < capacity ? i + 1 : NONE; /* touches every page before the run */
  return waits;
}

bool waits_has_space(const struct waits *waits) { return waits->free != NONE; }

static void make_due(struct waits *waits, uint32_t index) {
  const struct waiting *entry = &waits->entries[index];
  struct due due = {.due_ns = entry->due_ns, .position = entry->position, .index = index};
  due_push(waits->due, waits->due_count++, due);
}

void waits_add(struct waits *waits, const struct pace *pace, const struct block_record *record,
               uint64_t position) {
  uint32_t index = waits->free;
  struct waiting *entry = &waits->entries[index];
  waits->free = entry->next;
  entry->record = *record;
  entry->position = position;
  if (pace_due(pace, record, position, &entry->due_ns)) {
    make_due(waits, index);
    return;
  }
  entry->awaited = position - record->after;
  entry->next = waits->heads[entry->awaited % HEADS];
  waits->heads[entry->awaited % HEADS] = index;
  waits->follow_count++;
}

void waits_end(struct waits *waits, uint64_t position, uint64_t complete_ns) {
  uint32_t *link = &waits->heads[position % HEADS];
  while (*link != NONE) {
    uint32_t index = *link;
    struct waiting *entry = &waits->entries[index];
    if (entry->awaited != position) {
      link = &entry->next;
      continue;
    }
    *link = entry->next;
    waits->follow_count--;
    entry->due_ns = complete_ns + entry->record.think_ns;
    make_due(waits, index);
  }
}

bool waits_hurries(const struct waits *waits, uint64_t position, uint64_t think_ns) {
  for (uint32_t at = waits->heads[position % HEADS]; at != NONE; at = waits->entries[at].next)
    if (waits->entries[at].awaited == position && waits->entries[at].record.think_ns < think_ns)
      return true;
  return false;
}

const struct waiting *waits_first(const struct waits *waits) {
  return waits->due_count == 0 ? NULL : &waits->entries[waits->due[0].index];
}

void waits_remove_first(struct waits *waits) {
  uint32_t gone = waits->due[0].index;
  due_pop(waits->due, waits->due_count--);
  waits->entries[gone].next = waits->free;
  waits->free = gone;
}

bool waits_is_empty(const struct waits *waits) {
  return waits->due_count == 0 && waits->follow_count == 0;
}

bool waits_follows(const struct waits *waits) { return waits->follow_count > 0; }

uint64_t waits_lowest(const struct waits *waits, uint64_t next) {
  uint64_t lowest = next;
  for (uint32_t i = 0; i < waits->due_count; i++) {
    uint64_t position = waits->due[i].position;
    lowest = position < lowest ? position : lowest;
  }
  for (uint32_t i = 0; i < HEADS; i++)
    for (uint32_t at = waits->heads[i]; at != NONE; at = waits->entries[at].next)
      lowest = waits->entries[at].position < lowest ? waits->entries[at].position : lowest;
  return lowest;
}

void waits_close(struct waits *waits) {
  if (waits == NULL)
    return;
  free(waits->due);
  free(waits);
}
