#include "replay/waits.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
#define HEADS 8192U /* lists of those that wait, by the position that they wait for */

struct waits {
  uint32_t room;
  uint32_t due_count;    /* entries of `heap` */
  uint32_t follow_count; /* entries in lists */
  uint32_t free;         /* first of the free entries, NONE */
  uint32_t heads[HEADS];
  uint32_t *heap; /* of entries that are due, the first one on top */
  struct waiting entries[];
};

struct waits *waits_open(uint32_t room) {
  struct waits *waits = calloc(1, sizeof *waits + room * sizeof *waits->entries);
  if (waits == NULL)
    return NULL;
  waits->heap = calloc(room, sizeof *waits->heap);
  if (waits->heap == NULL) {
    free(waits);
    return NULL;
  }
  waits->room = room;
  memset(waits->heads, 0xff, sizeof waits->heads);
  for (uint32_t i = 0; i < room; i++)
    waits->entries[i].next = i + 1 < room ? i + 1 : NONE; /* touches every page before the run */
  return waits;
}

bool waits_has_room(const struct waits *waits) { return waits->free != NONE; }

static bool is_before(const struct waits *waits, uint32_t a, uint32_t b) {
  const struct waiting *first = &waits->entries[a];
  const struct waiting *second = &waits->entries[b];
  return first->due_ns != second->due_ns ? first->due_ns < second->due_ns
                                         : first->position < second->position;
}

static void make_due(struct waits *waits, uint32_t entry) {
  uint32_t at = waits->due_count++;
  for (uint32_t above = (at - 1) / 2; at > 0 && is_before(waits, entry, waits->heap[above]);
       at = above, above = (at - 1) / 2)
    waits->heap[at] = waits->heap[above];
  waits->heap[at] = entry;
}

void waits_add(struct waits *waits, const struct pace *pace, const struct feed_record *record,
               uint64_t position) {
  uint32_t index = waits->free;
  struct waiting *entry = &waits->entries[index];
  waits->free = entry->next;
  entry->record = *record;
  entry->position = position;
  if (pace_due(pace, &record->plan, position, &entry->due_ns)) {
    make_due(waits, index);
    return;
  }
  entry->awaited = position - record->plan.after;
  entry->next = waits->heads[entry->awaited % HEADS];
  waits->heads[entry->awaited % HEADS] = index;
  waits->follow_count++;
}

void waits_end(struct waits *waits, const struct pace *pace, uint64_t position) {
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
    (void)pace_due(pace, &entry->record.plan, entry->position, &entry->due_ns); /* has just ended */
    make_due(waits, index);
  }
}

bool waits_hurries(const struct waits *waits, uint64_t position, uint64_t think_ns) {
  for (uint32_t at = waits->heads[position % HEADS]; at != NONE; at = waits->entries[at].next)
    if (waits->entries[at].awaited == position &&
        waits->entries[at].record.plan.think_ns < think_ns)
      return true;
  return false;
}

const struct waiting *waits_first(const struct waits *waits) {
  return waits->due_count == 0 ? NULL : &waits->entries[waits->heap[0]];
}

void waits_remove_first(struct waits *waits) {
  uint32_t gone = waits->heap[0];
  uint32_t last = waits->heap[--waits->due_count];
  uint32_t at = 0;
  for (uint32_t below = 1; below < waits->due_count; below = 2 * at + 1) {
    bool is_right = below + 1 < waits->due_count &&
                    is_before(waits, waits->heap[below + 1], waits->heap[below]);
    below += is_right ? 1 : 0;
    if (!is_before(waits, waits->heap[below], last))
      break;
    waits->heap[at] = waits->heap[below];
    at = below;
  }
  waits->heap[at] = last;
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
    uint64_t position = waits->entries[waits->heap[i]].position;
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
  free(waits->heap);
  free(waits);
}
