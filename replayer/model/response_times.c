#include "model/response_times.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/heap.h"

#define PS_PER_NS 1000
#define SERVERS_MAX 256u
#define NONE (-1)
#define LONGEST_PS (INT64_MAX / 4)

struct arrival {
  int64_t ps;
  int64_t job;
};

static bool is_earlier(const struct arrival *left, const struct arrival *right) {
  return left->ps != right->ps ? left->ps < right->ps : left->job < right->job;
}

HEAP_DEFINE(arrivals, struct arrival, 4, is_earlier)

/* When the requests of a stream so far are done, the last of them. */
struct stream {
  int64_t traced_ns;
  int64_t done_ps;
};

struct responses {
  const struct tk_response_setup *setup;
  const struct tk_response_jobs *jobs;
  int64_t *free_ps[2]; /* when each server has served all: by device and server; of NVM by server */
  int64_t *next;       /* by job: the next one of its stream; behind them, by stream, the first */
  struct stream *streams;
  struct arrival *coming; /* a heap: the next request of each stream */
  size_t coming_count;
};

static bool is_setup_valid(const struct tk_response_setup *setup) {
  bool is_valid = setup->streams > 0 && setup->devices > 0;
  for (int place = 0; place < 2; place++)
    is_valid = is_valid && setup->servers[place] > 0 && setup->servers[place] <= SERVERS_MAX;
  return is_valid;
}

/* Rejects what cannot be, and single times to which no time within the limit can be added. */
static int check_jobs(const struct responses *all) {
  const struct tk_response_jobs *jobs = all->jobs;
  int64_t before_ns = 0;
  for (int64_t i = 0; i < jobs->count; i++) {
    if (jobs->arrival_ns[i] < before_ns || jobs->done_ns[i] < jobs->arrival_ns[i] ||
        jobs->stream[i] >= all->setup->streams || jobs->device[i] >= all->setup->devices ||
        jobs->base_ps[i] < NONE || jobs->nvm_ps[i] < NONE)
      return -EINVAL;
    if (jobs->base_ps[i] > LONGEST_PS || jobs->nvm_ps[i] > LONGEST_PS)
      return -EOVERFLOW;
    before_ns = jobs->arrival_ns[i];
  }
  return before_ns > LONGEST_PS / PS_PER_NS ? -EOVERFLOW : 0;
}

static int allocate(struct responses *all) {
  const struct tk_response_setup *setup = all->setup;
  all->free_ps[0] = calloc((size_t)setup->devices * setup->servers[0], sizeof(int64_t));
  all->free_ps[1] = calloc(setup->servers[1], sizeof(int64_t));
  all->next = malloc(((size_t)all->jobs->count + setup->streams) * sizeof *all->next);
  all->streams = calloc(setup->streams, sizeof *all->streams);
  all->coming = malloc(setup->streams * sizeof *all->coming);
  return all->free_ps[0] && all->free_ps[1] && all->next && all->streams && all->coming ? 0
                                                                                        : -ENOMEM;
}

static void release(struct responses *all) {
  free(all->free_ps[0]);
  free(all->free_ps[1]);
  free(all->next);
  free(all->streams);
  free(all->coming);
}

static void arrive(struct responses *all, int64_t job, int64_t ps) {
  if (job != NONE)
    arrivals_push(all->coming, all->coming_count++, (struct arrival){ps, job});
}

/* Links the requests of each stream, and lets the first ones arrive as traced. */
static void begin(struct responses *all) {
  int64_t *first = all->next + all->jobs->count;
  for (uint32_t stream = 0; stream < all->setup->streams; stream++)
    first[stream] = NONE;
  for (int64_t i = all->jobs->count; i-- > 0;) {
    const uint32_t stream = all->jobs->stream[i];
    all->next[i] = first[stream];
    first[stream] = i;
  }
  for (uint32_t stream = 0; stream < all->setup->streams; stream++)
    if (first[stream] != NONE)
      arrive(all, first[stream], all->jobs->arrival_ns[first[stream]] * PS_PER_NS);
}

/* Serves a part on the server that is free first, and returns when that is done. */
static int64_t serve(int64_t *servers, uint32_t count, int64_t arrival_ps, int64_t service_ps) {
  int64_t *server = servers;
  for (uint32_t i = 1; i < count; i++)
    server = servers[i] < *server ? &servers[i] : server;
  *server = (*server > arrival_ps ? *server : arrival_ps) + service_ps;
  return *server;
}

/* Returns when a request that arrives is done on both devices. */
static int64_t end_of(struct responses *all, const struct arrival *now) {
  const struct tk_response_jobs *jobs = all->jobs;
  const uint32_t *servers = all->setup->servers;
  int64_t *base = all->free_ps[0] + (size_t)jobs->device[now->job] * servers[0];
  int64_t end_ps = now->ps;
  if (jobs->base_ps[now->job] != NONE)
    end_ps = serve(base, servers[0], now->ps, jobs->base_ps[now->job]);
  if (jobs->nvm_ps[now->job] != NONE) {
    const int64_t nvm_ps = serve(all->free_ps[1], servers[1], now->ps, jobs->nvm_ps[now->job]);
    end_ps = nvm_ps > end_ps ? nvm_ps : end_ps;
  }
  return end_ps;
}

/* Lets the next request of a stream arrive. */
static void follow(struct responses *all, const struct arrival *now, int64_t end_ps) {
  const struct tk_response_jobs *jobs = all->jobs;
  struct stream *stream = &all->streams[jobs->stream[now->job]];
  const int64_t next = all->next[now->job];
  if (jobs->done_ns[now->job] > stream->traced_ns)
    stream->traced_ns = jobs->done_ns[now->job];
  stream->done_ps = end_ps > stream->done_ps ? end_ps : stream->done_ps;
  if (next == NONE)
    return;
  const int64_t arrival_ns = jobs->arrival_ns[next];
  const int64_t gap_ns = arrival_ns - jobs->arrival_ns[now->job];
  if (!all->setup->is_closed)
    arrive(all, next, arrival_ns * PS_PER_NS);
  else if (stream->traced_ns <= arrival_ns)
    arrive(all, next, stream->done_ps + (arrival_ns - stream->traced_ns) * PS_PER_NS);
  else
    arrive(all, next, now->ps + gap_ns * PS_PER_NS);
}

int tk_response_times(const struct tk_response_setup *setup, const struct tk_response_jobs *jobs,
                      int64_t *response_ps, int64_t *done_ps) {
  struct responses all = {.setup = setup, .jobs = jobs};
  int error = is_setup_valid(setup) ? check_jobs(&all) : -EINVAL;
  if (!error)
    error = allocate(&all);
  if (!error)
    begin(&all);
  while (!error && all.coming_count > 0) {
    const struct arrival now = all.coming[0];
    arrivals_pop(all.coming, all.coming_count--);
    const int64_t end_ps = end_of(&all, &now);
    response_ps[now.job] = end_ps - now.ps;
    done_ps[now.job] = end_ps;
    if (end_ps > LONGEST_PS)
      error = -EOVERFLOW;
    else
      follow(&all, &now, end_ps);
  }
  release(&all);
  return error;
}
