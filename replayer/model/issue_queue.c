#include "model/issue_queue.h"

#include <errno.h>
#include <stdlib.h>

#include "common/heap.h"

#define FIRST_SLOTS 1024u
#define EMPTY UINT32_MAX

/* When the request at a place of the pool was issued. */
struct issue_time {
  int64_t issue_ns, request_id;
  uint32_t place;
};

static bool is_earlier(const struct issue_time *left, const struct issue_time *right) {
  return left->issue_ns != right->issue_ns ? left->issue_ns < right->issue_ns
                                           : left->request_id < right->request_id;
}

HEAP_DEFINE(issue_heap, struct issue_time, 2, is_earlier)

struct issue_queue {
  struct issue_request *items; /* pool, `slots` / 2 places */
  struct issue_time *heap;     /* all places of the pool: `pending` in heap order, then free ones */
  uint32_t *table;             /* open addressing by request_id: place in the pool or EMPTY */
  uint32_t slots;              /* size of the table, a power of two */
  uint32_t pending;            /* number of requests held */
};

static uint32_t home_of(const struct issue_queue *queue, int64_t request_id) {
  /* Fibonacci hashing: consecutive ids spread over the table. */
  return (uint32_t)(((uint64_t)request_id * 0x9E3779B97F4A7C15u) >> 32) & (queue->slots - 1);
}

static uint32_t find_slot(const struct issue_queue *queue, int64_t request_id) {
  uint32_t slot = home_of(queue, request_id);
  while (queue->table[slot] != EMPTY && queue->items[queue->table[slot]].request_id != request_id)
    slot = (slot + 1) & (queue->slots - 1);
  return slot;
}

/* Closes the gap that a removal leaves, so that later entries of the chain are still found. */
static void clear_slot(struct issue_queue *queue, uint32_t slot) {
  const uint32_t mask = queue->slots - 1;
  uint32_t hole = slot;
  for (uint32_t next = (slot + 1) & mask; queue->table[next] != EMPTY; next = (next + 1) & mask) {
    const uint32_t home = home_of(queue, queue->items[queue->table[next]].request_id);
    if (((next - home) & mask) < ((next - hole) & mask))
      continue;
    queue->table[hole] = queue->table[next];
    hole = next;
  }
  queue->table[hole] = EMPTY;
}

static int grow(struct issue_queue *queue, uint32_t slots) {
  if (slots == 0)
    return -ENOMEM;
  struct issue_request *items = realloc(queue->items, slots / 2 * sizeof *items);
  if (items == NULL)
    return -ENOMEM;
  queue->items = items;
  struct issue_time *heap = realloc(queue->heap, slots / 2 * sizeof *heap);
  if (heap == NULL)
    return -ENOMEM;
  queue->heap = heap;
  uint32_t *table = realloc(queue->table, slots * sizeof *table);
  if (table == NULL)
    return -ENOMEM;
  queue->table = table;

  for (uint32_t place = queue->slots / 2; place < slots / 2; place++)
    heap[place].place = place;
  queue->slots = slots;
  for (uint32_t slot = 0; slot < slots; slot++)
    table[slot] = EMPTY;
  for (uint32_t i = 0; i < queue->pending; i++)
    table[find_slot(queue, heap[i].request_id)] = heap[i].place;
  return 0;
}

int issue_queue_new(struct issue_queue **out) {
  struct issue_queue *queue = calloc(1, sizeof *queue);
  if (queue == NULL)
    return -ENOMEM;
  const int error = grow(queue, FIRST_SLOTS);
  if (error) {
    issue_queue_free(queue);
    return error;
  }
  *out = queue;
  return 0;
}

int issue_queue_push(struct issue_queue *queue, const struct issue_request *request) {
  if (queue->pending == queue->slots / 2) {
    const int error = grow(queue, queue->slots * 2);
    if (error)
      return error;
  }
  const uint32_t slot = find_slot(queue, request->request_id);
  if (queue->table[slot] != EMPTY)
    return -EEXIST;
  const struct issue_time time = {request->issue_ns, request->request_id,
                                  queue->heap[queue->pending].place};
  queue->items[time.place] = *request;
  queue->table[slot] = time.place;
  issue_heap_push(queue->heap, queue->pending++, time);
  return 0;
}

static bool is_joined(const struct issue_request *a, const struct issue_request *b) {
  const bool touches = a->sector <= b->sector + b->sectors && b->sector <= a->sector + a->sectors;
  return touches && a->device == b->device && a->is_write == b->is_write && a->role == b->role;
}

int issue_queue_merge(struct issue_queue *queue, int64_t target_id,
                      const struct issue_request *request) {
  const uint32_t place = queue->table[find_slot(queue, target_id)];
  if (place == EMPTY || !is_joined(&queue->items[place], request))
    return -ENOENT;
  struct issue_request *target = &queue->items[place];
  const int64_t target_end = target->sector + target->sectors;
  const int64_t end = request->sector + request->sectors;
  if (request->sector < target->sector)
    target->sector = request->sector;
  target->sectors = (end > target_end ? end : target_end) - target->sector;
  target->is_fua |= request->is_fua;
  return 0;
}

bool issue_queue_pop(struct issue_queue *queue, int64_t now_ns, struct issue_request *request) {
  if (queue->pending == 0 || queue->heap[0].issue_ns >= now_ns)
    return false;
  const struct issue_time first = queue->heap[0];
  *request = queue->items[first.place];
  clear_slot(queue, find_slot(queue, request->request_id));
  issue_heap_pop(queue->heap, queue->pending--);
  queue->heap[queue->pending] = first; /* its place is free */
  return true;
}

void issue_queue_free(struct issue_queue *queue) {
  if (queue == NULL)
    return;
  free(queue->items);
  free(queue->heap);
  free(queue->table);
  free(queue);
}
