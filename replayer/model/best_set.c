#include "model/best_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS 64u

/* Returns the first group of a request from `group` on that is on NVM, or on the base device; one
 * past its last where there is none. */
static uint32_t next_of(const struct best_set *set, const struct best_request *request,
                        uint32_t group, bool is_on) {
  while (group <= request->last && set->on[group] != is_on)
    group++;
  return group;
}

/* Where the base device's head is after a request of which it has a part. */
static int64_t head_after(const struct best_set *set, const struct best_request *request) {
  uint32_t group = request->last;
  while (set->on[group])
    group--;
  return best_end(set->trace, request, group);
}

/* Finds the last request before `at`, not before `from`, of which the base device has a part;
 * returns `at` when there is none. */
static uint64_t based_before(const struct best_set *set, uint64_t at, uint64_t from) {
  for (uint64_t end = at; end > from; end = (end - 1) / WORD_BITS * WORD_BITS) {
    const uint64_t word = (end - 1) / WORD_BITS;
    const uint64_t below = UINT64_MAX >> (WORD_BITS - 1 - (end - 1) % WORD_BITS);
    const uint64_t bits = set->based[word] & below;
    if (bits == 0)
      continue;
    const uint64_t found = word * WORD_BITS + WORD_BITS - 1 - (uint64_t)__builtin_clzll(bits);
    return found >= from ? found : at;
  }
  return at;
}

/* The same, from `at` on and before `end`; returns `end` when there is none. */
static uint64_t based_from(const struct best_set *set, uint64_t at, uint64_t end) {
  for (uint64_t begin = at; begin < end; begin = (begin / WORD_BITS + 1) * WORD_BITS) {
    const uint64_t bits = set->based[begin / WORD_BITS] & (UINT64_MAX << (begin % WORD_BITS));
    if (bits == 0)
      continue;
    const uint64_t found = begin / WORD_BITS * WORD_BITS + (uint64_t)__builtin_ctzll(bits);
    return found < end ? found : end;
  }
  return end;
}

/* Where the base device's head is before a request; -1 before the first. */
static int64_t head_before(const struct best_set *set, const struct best_stream *stream,
                           uint64_t number) {
  if (!set->trace->is_ordered)
    return -1;
  const uint64_t before = based_before(set, number, stream->offset);
  return before < number ? head_after(set, &stream->requests[before - stream->offset]) : -1;
}

/* What a request takes, but for its transfers: on the base device each run of its sectors begins
 * anew, on NVM they are neighbours. */
static int64_t request_ps(struct best_set *set, const struct best_stream *stream, uint64_t number) {
  const struct tk_best_prices *prices = &set->trace->setup.prices;
  const struct best_request *request = &stream->requests[number - stream->offset];
  const int op = request->kind & BEST_WRITE;
  set->looks++;
  if (request->kind & BEST_STUCK)
    return 0;
  int64_t ps = 0;
  if (next_of(set, request, request->first, true) <= request->last)
    ps += prices->nvm.latency_ps[op] + (request->kind & BEST_FUA ? prices->nvm.fua_ps : 0);
  uint32_t group = next_of(set, request, request->first, false);
  if (group > request->last)
    return ps;
  int64_t head = head_before(set, stream, number);
  while (group <= request->last) {
    ps += best_setup_ps(set->trace, request, head, best_start(set->trace, request, group));
    group = next_of(set, request, group, true);
    head = best_end(set->trace, request, group - 1);
    group = next_of(set, request, group, false);
  }
  return ps;
}

static void mark(struct best_set *set, const struct best_request *request, uint64_t number) {
  const uint64_t bit = UINT64_C(1) << (number % WORD_BITS);
  if (next_of(set, request, request->first, false) <= request->last)
    set->based[number / WORD_BITS] |= bit;
  else
    set->based[number / WORD_BITS] &= ~bit;
}

/* Counts where a request leaves something to flush. */
static void count_writes(struct best_set *set, const struct best_request *request) {
  if (!best_flushes_counts(set->trace, request))
    return;
  if (next_of(set, request, request->first, false) <= request->last)
    best_flushes_count(&set->flushes, request, false, 1);
  if (next_of(set, request, request->first, true) <= request->last)
    best_flushes_count(&set->flushes, request, true, 1);
}

void best_set_time(struct best_set *set) {
  const struct best_trace *trace = set->trace;
  set->elapsed_ps = trace->fixed_ps;
  set->blocks = 0;
  memset(set->role_on, 0, sizeof set->role_on);
  for (uint32_t group = 0; group < trace->groups; group++) {
    if (!set->on[group])
      continue;
    const uint32_t blocks = best_blocks_of(trace, group);
    set->blocks += blocks;
    set->role_on[trace->setup.roles[trace->first_block[group]]] += blocks;
    set->elapsed_ps -= trace->moved_ps[group];
  }
  best_flushes_clear(&set->flushes);
  for (uint32_t device = 0; device < trace->setup.device_count; device++) {
    const struct best_stream *stream = &trace->streams[device];
    for (uint32_t i = 0; i < stream->count; i++) {
      const uint64_t number = stream->offset + i;
      mark(set, &stream->requests[i], number);
      set->taken_ps[number] = request_ps(set, stream, number);
      set->elapsed_ps += set->taken_ps[number];
      count_writes(set, &stream->requests[i]);
    }
  }
  best_flushes_direct(&set->flushes, set->role_on, true);
  set->elapsed_ps += set->flushes.ps;
  best_set_keep(set);
}

int best_set_link(struct best_set *set) {
  const struct best_trace *trace = set->trace;
  if (set->touched != NULL)
    return 0;
  /* A group's move changes its own requests and for each of them one that comes after it. */
  set->moved = malloc((trace->groups + 1ul) * sizeof *set->moved);
  set->changes = malloc((2 * trace->pairs + 1) * sizeof *set->changes);
  set->touches = malloc((trace->pairs + 1) * sizeof *set->touches);
  if (set->moved != NULL && set->changes != NULL && set->touches != NULL)
    set->touched = calloc(trace->groups + 2ul, sizeof *set->touched);
  if (set->touched == NULL)
    return -ENOMEM;
  /* Counted two places on, so that filling leaves each group's first one in its own place. */
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t device = 0; device < trace->setup.device_count; device++) {
      const struct best_stream *stream = &trace->streams[device];
      for (uint32_t i = 0; i < stream->count; i++)
        for (uint32_t group = stream->requests[i].first; group <= stream->requests[i].last;
             group++) {
          if (pass == 0)
            set->touched[group + 2]++;
          else
            set->touches[set->touched[group + 1]++] = (uint32_t)(stream->offset + i);
        }
    }
    for (uint32_t group = 0; pass == 0 && group < trace->groups; group++)
      set->touched[group + 2] += set->touched[group + 1];
  }
  return 0;
}

static void note(struct best_set *set, uint64_t number) {
  const bool is_based = set->based[number / WORD_BITS] >> (number % WORD_BITS) & 1u;
  set->changes[set->change_count++] =
      (struct best_change){set->taken_ps[number], (uint32_t)number, is_based};
}

/* Works out anew what a request takes; returns by how much that changes. */
static int64_t retime(struct best_set *set, const struct best_stream *stream, uint64_t number) {
  const int64_t before_ps = set->taken_ps[number];
  set->taken_ps[number] = request_ps(set, stream, number);
  return set->taken_ps[number] - before_ps;
}

/* The same for the requests of a group that has moved, and for each one right after them on the
 * base device. */
static int64_t retime_around(struct best_set *set, uint32_t group) {
  const struct best_stream *stream = &set->trace->streams[set->trace->stream_of[group]];
  const uint64_t begin = set->touched[group];
  const uint64_t end = set->touched[group + 1];
  for (uint64_t i = begin; i < end; i++) {
    note(set, set->touches[i]);
    mark(set, &stream->requests[set->touches[i] - stream->offset], set->touches[i]);
  }
  int64_t change_ps = 0;
  for (uint64_t i = begin; i < end; i++) {
    const uint64_t number = set->touches[i];
    change_ps += retime(set, stream, number);
    if (!set->trace->is_ordered)
      continue;
    const uint64_t stop = i + 1 == end ? stream->offset + stream->count : set->touches[i + 1];
    const uint64_t next = based_from(set, number + 1, stop);
    if (next == stop)
      continue;
    note(set, next);
    change_ps += retime(set, stream, next);
  }
  return change_ps;
}

/* Counts the blocks of a group where it is now. */
static void count_blocks(struct best_set *set, uint32_t group) {
  const struct best_trace *trace = set->trace;
  const int64_t blocks =
      set->on[group] ? best_blocks_of(trace, group) : -(int64_t)best_blocks_of(trace, group);
  set->role_on[trace->setup.roles[trace->first_block[group]]] += blocks;
  set->blocks += blocks;
}

/* Counts the same anew for a group that has moved: its requests leave a device on which they have
 * nothing else, and come to the other. */
static void move_writes(struct best_set *set, uint32_t group) {
  const struct best_stream *stream = &set->trace->streams[set->trace->stream_of[group]];
  const bool is_on = set->on[group];
  for (uint64_t i = set->touched[group]; set->trace->has_empty && i < set->touched[group + 1];
       i++) {
    const struct best_request *request = &stream->requests[set->touches[i] - stream->offset];
    if (!best_flushes_counts(set->trace, request))
      continue;
    bool are_others[2] = {false, false};
    for (uint32_t other = request->first; other <= request->last; other++)
      are_others[set->on[other]] |= other != group;
    if (!are_others[is_on])
      best_flushes_count(&set->flushes, request, is_on, 1);
    if (!are_others[!is_on])
      best_flushes_count(&set->flushes, request, !is_on, -1);
  }
  best_flushes_direct(&set->flushes, set->role_on, false);
}

int64_t best_set_toggle(struct best_set *set, uint32_t group) {
  const struct best_trace *trace = set->trace;
  const int64_t flushed_ps = set->flushes.ps;
  set->on[group] = !set->on[group];
  set->moved[set->moved_count++] = group;
  count_blocks(set, group);
  move_writes(set, group);
  int64_t change_ps = retime_around(set, group) + set->flushes.ps - flushed_ps;
  change_ps += set->on[group] ? -trace->moved_ps[group] : trace->moved_ps[group];
  set->elapsed_ps += change_ps;
  return change_ps;
}

void best_set_keep(struct best_set *set) {
  set->kept_ps = set->elapsed_ps;
  set->moved_count = 0;
  set->change_count = 0;
}

void best_set_restore(struct best_set *set) {
  while (set->change_count > 0) {
    const struct best_change *change = &set->changes[--set->change_count];
    const uint64_t bit = UINT64_C(1) << (change->number % WORD_BITS);
    uint64_t *word = &set->based[change->number / WORD_BITS];
    *word = change->is_based ? *word | bit : *word & ~bit;
    set->taken_ps[change->number] = change->taken_ps;
  }
  while (set->moved_count > 0) {
    const uint32_t group = set->moved[--set->moved_count];
    set->on[group] = !set->on[group];
    count_blocks(set, group);
    move_writes(set, group);
  }
  set->elapsed_ps = set->kept_ps;
}

int best_set_init(struct best_set *set, const struct best_trace *trace) {
  *set = (struct best_set){.trace = trace};
  set->on = calloc(trace->groups + 1ul, sizeof *set->on);
  set->based = calloc(trace->requests / WORD_BITS + 1, sizeof *set->based);
  set->taken_ps = malloc((trace->requests + 1) * sizeof *set->taken_ps);
  const int error = best_flushes_init(&set->flushes, trace, &trace->setup.prices);
  return set->on != NULL && set->based != NULL && set->taken_ps != NULL ? error : -ENOMEM;
}

void best_set_free(struct best_set *set) {
  best_flushes_free(&set->flushes);
  free(set->on);
  free(set->based);
  free(set->taken_ps);
  free(set->moved);
  free(set->changes);
  free(set->touches);
  free(set->touched);
}
