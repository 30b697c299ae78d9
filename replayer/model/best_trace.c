#include "model/best_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/best_flush.h"

#define WORD_BITS 64u
#define FIRST_SPACE 256u
#define AHEAD 16u /* requests between looking ahead and the one at hand */

/* Groups by block: how many begin before each word of the bits. */
struct ranks {
  const uint64_t *starts;
  uint32_t *before;
};

static bool bit_of(const uint64_t *bits, uint32_t place) {
  return bits[place / WORD_BITS] >> (place % WORD_BITS) & 1u;
}

/* Blocks of different roles, or with a gap between their keys, are in different groups. */
static void cut_blocks(const struct best_trace *trace, uint64_t *starts) {
  const struct tk_best_setup *setup = &trace->setup;
  for (uint32_t i = 0; i < setup->block_count; i++)
    if (i == 0 || setup->keys[i] != setup->keys[i - 1] + 1 ||
        setup->roles[i] != setup->roles[i - 1])
      starts[i / WORD_BITS] |= UINT64_C(1) << (i % WORD_BITS);
}

static uint32_t group_of(const struct ranks *ranks, uint32_t block) {
  const uint64_t below = UINT64_MAX >> (WORD_BITS - 1 - block % WORD_BITS);
  return ranks->before[block / WORD_BITS] +
         (uint32_t)__builtin_popcountll(ranks->starts[block / WORD_BITS] & below) - 1;
}

static int make_groups(struct best_trace *trace, struct ranks *ranks) {
  const uint32_t blocks = trace->setup.block_count;
  const uint32_t words = blocks / WORD_BITS + 1;
  ranks->before = malloc(words * sizeof *ranks->before);
  if (ranks->before == NULL)
    return -ENOMEM;
  for (uint32_t word = 0; word < words; word++) {
    ranks->before[word] = trace->groups;
    trace->groups += (uint32_t)__builtin_popcountll(ranks->starts[word]);
  }
  trace->first_block = malloc((trace->groups + 1ul) * sizeof *trace->first_block);
  trace->stream_of = calloc(trace->groups + 1ul, sizeof *trace->stream_of);
  trace->by_role = malloc((trace->groups + 1ul) * sizeof *trace->by_role);
  trace->moved_ps = calloc(trace->groups + 1ul, sizeof *trace->moved_ps);
  if (trace->first_block == NULL || trace->stream_of == NULL || trace->by_role == NULL ||
      trace->moved_ps == NULL)
    return -ENOMEM;
  uint32_t group = 0;
  for (uint32_t i = 0; i < blocks; i++)
    if (bit_of(ranks->starts, i))
      trace->first_block[group++] = i;
  trace->first_block[group] = blocks;
  return 0;
}

static void sort_by_role(struct best_trace *trace) {
  uint32_t place = 0;
  for (uint32_t role = 0; role < TK_ROLES; role++) {
    trace->role_begin[role] = place;
    for (uint32_t group = 0; group < trace->groups; group++) {
      if (trace->setup.roles[trace->first_block[group]] != role)
        continue;
      trace->by_role[place++] = group;
      trace->role_blocks[role] += best_blocks_of(trace, group);
    }
  }
  trace->role_begin[TK_ROLES] = place;
}

/* Writes groups instead of blocks: each request has whole ones only, as it cut them. */
static void name_groups(struct best_trace *trace, const struct ranks *ranks) {
  for (uint32_t device = 0; device < trace->setup.device_count; device++) {
    struct best_stream *stream = &trace->streams[device];
    stream->offset = trace->requests;
    trace->requests += stream->count;
    for (uint32_t i = 0; i < stream->count; i++) {
      struct best_request *request = &stream->requests[i];
      request->first = group_of(ranks, request->first);
      request->last = group_of(ranks, request->last);
      trace->pairs += request->last - request->first + 1u;
      for (uint32_t group = request->first; group <= request->last; group++)
        trace->stream_of[group] = device;
    }
  }
}

void best_look_ahead(const struct best_trace *trace, const struct best_stream *stream, uint32_t i,
                     const void *values, size_t size) {
  if (stream->count - i <= AHEAD)
    return;
  const uint32_t group = stream->requests[i + AHEAD].first;
  __builtin_prefetch(&trace->first_block[group]);
  __builtin_prefetch((const char *)values + group * size);
}

/* The last request, from 1, that ended in or right before the block in which one begins: no later
 * one can have ended where it begins. */
static uint32_t last_ending(const struct best_trace *trace, const struct best_request *request,
                            const uint32_t *ended) {
  const uint32_t group = request->first;
  if (request->lead > 0)
    return ended[group];
  const uint32_t block = trace->first_block[group];
  if (block == 0 || trace->setup.keys[block - 1] + 1 != trace->setup.keys[block])
    return 0;
  return ended[group - 1];
}

static int find_continued(struct best_trace *trace) {
  uint32_t *ended = calloc(trace->groups + 1ul, sizeof *ended);
  if (ended == NULL)
    return -ENOMEM;
  int error = 0;
  for (uint32_t device = 0; device < trace->setup.device_count && !error; device++) {
    struct best_stream *stream = &trace->streams[device];
    stream->since = malloc((stream->count + 1ul) * sizeof *stream->since);
    error = stream->since == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; i < stream->count && !error; i++) {
      best_look_ahead(trace, stream, i, ended, sizeof *ended);
      const struct best_request *request = &stream->requests[i];
      const uint32_t found = last_ending(trace, request, ended);
      stream->since[i] = found > 0 ? i + 1 - found : 0;
      ended[request->last] = i + 1;
    }
  }
  free(ended);
  return error;
}

/* Makes space for one more of so many bytes; returns NULL where there is none. */
static void *grown(void *list, uint32_t count, uint32_t *space, size_t bytes) {
  if (count < *space)
    return list;
  const uint64_t more = *space == 0 ? FIRST_SPACE : 2ul * *space;
  void *found = more < UINT32_MAX ? realloc(list, more * bytes) : NULL;
  if (found != NULL)
    *space = (uint32_t)more;
  return found;
}

int best_trace_flush(struct best_trace *trace, uint32_t device, uint8_t role) {
  struct best_flush *list =
      grown(trace->flush_list, trace->flush_count, &trace->flush_space, sizeof *trace->flush_list);
  if (list == NULL)
    return -ENOMEM;
  trace->flush_list = list;
  list[trace->flush_count++] = (struct best_flush){device, role};
  trace->flushes[role]++;
  return 0;
}

int best_trace_stuck(struct best_trace *trace, uint32_t device) {
  const struct best_stuck one = {device, trace->flush_count};
  const struct best_stuck *last =
      trace->stuck_count > 0 ? &trace->stuck[trace->stuck_count - 1] : NULL;
  if (last != NULL && last->device == one.device && last->epoch == one.epoch)
    return 0;
  struct best_stuck *list =
      grown(trace->stuck, trace->stuck_count, &trace->stuck_space, sizeof *trace->stuck);
  if (list == NULL)
    return -ENOMEM;
  trace->stuck = list;
  list[trace->stuck_count++] = one;
  return 0;
}

int best_trace_group(struct best_trace *trace, uint64_t *starts) {
  struct ranks ranks = {.starts = starts};
  cut_blocks(trace, starts);
  int error = make_groups(trace, &ranks);
  if (!error) {
    sort_by_role(trace);
    name_groups(trace, &ranks);
    error = find_continued(trace);
  }
  free(ranks.before);
  return error;
}

/* How many sectors the part of a request in a group has. */
static int64_t best_sectors(const struct best_trace *trace, const struct best_request *request,
                            uint32_t group) {
  return 8 * (int64_t)best_blocks_of(trace, group) - (group == request->first ? request->lead : 0) -
         (group == request->last ? request->tail : 0);
}

void best_trace_price(struct best_trace *trace) {
  const struct tk_best_prices *prices = &trace->setup.prices;
  trace->has_empty = best_has_empty(prices);
  trace->is_ordered = prices->disk.half_turn_ps > 0;
  for (int op = 0; op < 2; op++)
    trace->is_ordered |= prices->base.latency_ps[op] != prices->base.sequential_ps[op];
  memset(trace->moved_ps, 0, trace->groups * sizeof *trace->moved_ps);
  trace->fixed_ps = 0;
  for (uint32_t device = 0; device < trace->setup.device_count; device++) {
    const struct best_stream *stream = &trace->streams[device];
    for (uint32_t i = 0; i < stream->count; i++) {
      best_look_ahead(trace, stream, i, trace->moved_ps, sizeof *trace->moved_ps);
      const struct best_request *request = &stream->requests[i];
      const int op = request->kind & BEST_WRITE;
      for (uint32_t group = request->first; group <= request->last; group++) {
        const int64_t sectors = best_sectors(trace, request, group);
        trace->fixed_ps += sectors * prices->base.sector_ps[op];
        trace->moved_ps[group] +=
            sectors * (prices->base.sector_ps[op] - prices->nvm.sector_ps[op]);
      }
    }
  }
}

void best_trace_free(struct best_trace *trace) {
  for (uint32_t device = 0; trace->streams != NULL && device < trace->setup.device_count;
       device++) {
    free(trace->streams[device].requests);
    free(trace->streams[device].since);
  }
  free(trace->streams);
  free(trace->flush_list);
  free(trace->stuck);
  free(trace->first_block);
  free(trace->stream_of);
  free(trace->by_role);
  free(trace->moved_ps);
}
