#include "read/open_requests.h"

#include <errno.h>
#include <stdlib.h>

#include "common/hash.h"

#define FIRST_CAPACITY 1024u

int requests_open(struct open_requests *requests) {
  *requests = (struct open_requests){.free_list = NO_REQUEST, .buckets = FIRST_CAPACITY};
  requests->by_begin = malloc(requests->buckets * sizeof(*requests->by_begin));
  requests->by_end = malloc(requests->buckets * sizeof(*requests->by_end));
  if (!requests->by_begin || !requests->by_end)
    return -ENOMEM;
  for (uint32_t i = 0; i < requests->buckets; i++)
    requests->by_begin[i] = requests->by_end[i] = NO_REQUEST;
  return 0;
}

void requests_close(struct open_requests *requests) {
  free(requests->pool);
  free(requests->by_begin);
  free(requests->by_end);
  *requests = (struct open_requests){0};
}

static int grow_pool(struct open_requests *requests) {
  uint32_t capacity = requests->capacity ? requests->capacity * 2 : FIRST_CAPACITY;
  struct open_request *pool = realloc(requests->pool, capacity * sizeof(*pool));
  if (!pool)
    return -ENOMEM;
  requests->pool = pool;
  requests->capacity = capacity;
  return 0;
}

uint32_t requests_new(struct open_requests *requests) {
  uint32_t index = requests->free_list;
  if (index != NO_REQUEST)
    requests->free_list = requests->pool[index].next_at_begin;
  else if (requests->used < requests->capacity || grow_pool(requests) == 0)
    index = requests->used++;
  else
    return NO_REQUEST;
  requests->pool[index] = (struct open_request){.row = NO_ROW,
                                                .first_child = NO_REQUEST,
                                                .last_child = NO_REQUEST,
                                                .next_child = NO_REQUEST,
                                                .next_of_row = NO_REQUEST,
                                                .previous_of_row = NO_REQUEST,
                                                .flushed_ns = NO_TIME};
  return index;
}

void requests_free(struct open_requests *requests, uint32_t index) {
  requests->pool[index].next_at_begin = requests->free_list;
  requests->free_list = index;
}

static uint32_t bucket_of(const struct open_requests *requests, uint32_t device, uint64_t sector) {
  return (uint32_t)hash_mix(sector ^ ((uint64_t)device << 48)) & (requests->buckets - 1);
}

static void enter(struct open_requests *requests, uint32_t index) {
  struct open_request *request = &requests->pool[index];
  uint32_t *begin = &requests->by_begin[bucket_of(requests, request->device, request->begin)];
  uint32_t *end = &requests->by_end[bucket_of(requests, request->device, request->end)];
  request->next_at_begin = *begin;
  *begin = index;
  request->next_at_end = *end;
  *end = index;
}

static int grow_tables(struct open_requests *requests) {
  struct open_requests bigger = *requests;
  bigger.buckets *= 2;
  bigger.by_begin = malloc(bigger.buckets * sizeof(*bigger.by_begin));
  bigger.by_end = malloc(bigger.buckets * sizeof(*bigger.by_end));
  if (!bigger.by_begin || !bigger.by_end) {
    free(bigger.by_begin);
    free(bigger.by_end);
    return -ENOMEM;
  }
  for (uint32_t i = 0; i < bigger.buckets; i++)
    bigger.by_begin[i] = bigger.by_end[i] = NO_REQUEST;

  /* All linked requests are in the first table, so one pass over it enters them into both. */
  for (uint32_t i = 0; i < requests->buckets; i++)
    for (uint32_t index = requests->by_begin[i], next; index != NO_REQUEST; index = next) {
      next = requests->pool[index].next_at_begin;
      enter(&bigger, index);
    }
  free(requests->by_begin);
  free(requests->by_end);
  *requests = bigger;
  return 0;
}

int requests_link(struct open_requests *requests, uint32_t index) {
  if (requests->linked >= requests->buckets && grow_tables(requests))
    return -ENOMEM;
  enter(requests, index);
  requests->linked++;
  return 0;
}

void requests_unlink(struct open_requests *requests, uint32_t index) {
  const struct open_request *request = &requests->pool[index];
  uint32_t *link = &requests->by_begin[bucket_of(requests, request->device, request->begin)];
  while (*link != index)
    link = &requests->pool[*link].next_at_begin;
  *link = request->next_at_begin;
  link = &requests->by_end[bucket_of(requests, request->device, request->end)];
  while (*link != index)
    link = &requests->pool[*link].next_at_end;
  *link = request->next_at_end;
  requests->linked--;
}

static bool fits(const struct open_request *request, const struct request_key *key) {
  bool has_length = key->sectors == ANY_LENGTH || request->end - request->begin == key->sectors;
  return request->device == key->device && request->kind == key->kind &&
         (request->state & key->states) != 0 && has_length;
}

/* Both are candidates; says whether `left` is the better one. */
static bool is_better(const struct open_request *left, const struct open_request *right,
                      uint32_t pid) {
  bool left_same = left->pid == pid;
  bool right_same = right->pid == pid;
  return left_same != right_same ? left_same : left->row > right->row;
}

uint32_t requests_find(const struct open_requests *requests, const struct request_key *key) {
  uint32_t best = NO_REQUEST;
  uint32_t index = requests->by_begin[bucket_of(requests, key->device, key->sector)];
  for (; index != NO_REQUEST; index = requests->pool[index].next_at_begin) {
    const struct open_request *request = &requests->pool[index];
    bool is_candidate = request->begin == key->sector && fits(request, key);
    if (is_candidate && (best == NO_REQUEST || is_better(request, &requests->pool[best], key->pid)))
      best = index;
  }
  return best;
}

uint32_t requests_find_end(const struct open_requests *requests, const struct request_key *key) {
  uint32_t best = NO_REQUEST;
  uint32_t index = requests->by_end[bucket_of(requests, key->device, key->sector)];
  for (; index != NO_REQUEST; index = requests->pool[index].next_at_end) {
    const struct open_request *request = &requests->pool[index];
    bool is_candidate =
        request->end == key->sector && request->begin < request->end && fits(request, key);
    if (is_candidate && (best == NO_REQUEST || is_better(request, &requests->pool[best], key->pid)))
      best = index;
  }
  return best;
}
