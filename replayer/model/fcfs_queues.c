#include "model/fcfs_queues.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define LOW_BITS 32
#define LOW_MASK UINT32_MAX

/* The longer vectors of newer processors hold four and eight times of a placement. */
#if defined(__x86_64__) && defined(__GLIBC__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

/* All arrays have a row of `count` placements for each server, so that the loops over placements,
 * which take nearly all the time, run over neighbours. */
struct fcfs_queues {
  uint32_t count;
  uint32_t devices;
  uint32_t servers[2];
  int64_t *free_ps[2]; /* when each server has served all: by device, server, placement; of NVM by
                          server and placement */
  uint64_t *low;       /* sums of the answers' lower 32 bits, and of the others */
  uint64_t *high;
  int64_t *end_ps;        /* of the job */
  int64_t *flushed_ps;    /* of the preflush that was the last job */
  int64_t *late_ps;       /* of the last data that waited for their flush */
  int64_t *written_ps[2]; /* of the last write: by device and placement; of NVM by placement */
};

int fcfs_new(uint32_t count, uint32_t devices, const uint32_t servers[2],
             struct fcfs_queues **out) {
  struct fcfs_queues *queues = calloc(1, sizeof *queues);
  if (queues == NULL)
    return -ENOMEM;
  const size_t row = count + 1ul;
  *queues = (struct fcfs_queues){
      .count = count,
      .devices = devices,
      .servers = {servers[0], servers[1]},
      .free_ps = {calloc(row * (devices * (size_t)servers[0] + 1), sizeof(int64_t)),
                  calloc(row * servers[1], sizeof(int64_t))},
      .low = calloc(row, sizeof(uint64_t)),
      .high = calloc(row, sizeof(uint64_t)),
      .end_ps = calloc(row, sizeof(int64_t)),
      .flushed_ps = calloc(row, sizeof(int64_t)),
      .late_ps = calloc(row, sizeof(int64_t)),
      .written_ps = {calloc(row * (devices + 1ul), sizeof(int64_t)), calloc(row, sizeof(int64_t))},
  };
  *out = queues;
  if (queues->free_ps[0] && queues->free_ps[1] && queues->low && queues->high && queues->end_ps &&
      queues->flushed_ps && queues->late_ps && queues->written_ps[0] && queues->written_ps[1])
    return 0;
  fcfs_free(queues);
  *out = NULL;
  return -ENOMEM;
}

static int64_t max_ps(int64_t a, int64_t b) { return a > b ? a : b; }

/* One server: the job waits for the one before it. */
WIDEST static void serve_one(int64_t *restrict free_ps, int64_t *restrict end_ps, uint32_t count,
                             int64_t arrival_ps, int64_t service_ps) {
  for (uint32_t i = 0; i < count; i++) {
    free_ps[i] = max_ps(free_ps[i], arrival_ps) + service_ps;
    end_ps[i] = max_ps(end_ps[i], free_ps[i]);
  }
}

static int64_t *row_of(struct fcfs_queues *queues, uint32_t device, const struct piece *piece,
                       int place) {
  const size_t first = place == 0 ? (size_t)device * queues->servers[0] * queues->count : 0;
  return queues->free_ps[place] + first + piece->begin;
}

/* The servers of a device, of one placement. */
struct servers {
  int64_t *free_ps; /* of the first; the others a row further each */
  uint32_t row;
  uint32_t count;
};

static int64_t *first_free(const struct servers *servers) {
  int64_t *first = servers->free_ps;
  for (uint32_t server = 1; server < servers->count; server++) {
    int64_t *other = &servers->free_ps[(size_t)server * servers->row];
    first = *other < *first ? other : first;
  }
  return first;
}

/* Of those that are free at a time the one that was free last, `first` if there is none. */
static int64_t *last_free(const struct servers *servers, int64_t *first, int64_t time_ps) {
  int64_t *last = first;
  for (uint32_t server = 0; server < servers->count; server++) {
    int64_t *other = &servers->free_ps[(size_t)server * servers->row];
    last = *other <= time_ps && *other > *last ? other : last;
  }
  return last;
}

/* Several: the job goes to the one that is free first, but for a flush and its data. */
static void serve_many(struct fcfs_queues *queues, uint32_t device, const struct piece *piece,
                       int place, int64_t arrival_ps, enum fcfs_part part) {
  const int64_t service_ps = place == 0 ? piece->base_ps : piece->nvm_ps;
  int64_t *written_ps = queues->written_ps[place] + (place == 0 ? device * queues->count : 0);
  int64_t *free_ps = row_of(queues, device, piece, place);
  for (uint32_t i = piece->begin; i < piece->end; i++, free_ps++) {
    const struct servers servers = {free_ps, queues->count, queues->servers[place]};
    int64_t *server = first_free(&servers);
    int64_t start_ps = max_ps(*server, arrival_ps);
    if (part == FCFS_FLUSH || part == FCFS_PREFLUSH) {
      start_ps = max_ps(start_ps, written_ps[i]);
      server = last_free(&servers, server, start_ps);
    } else if (part == FCFS_DATA) {
      server = last_free(&servers, server, queues->flushed_ps[i]);
      start_ps = max_ps(*server, arrival_ps);
    }
    *server = start_ps + service_ps;
    queues->end_ps[i] = max_ps(queues->end_ps[i], *server);
    if (part == FCFS_WRITE || part == FCFS_DATA)
      written_ps[i] = max_ps(written_ps[i], *server);
  }
}

WIDEST static void add_answers(uint64_t *restrict low, uint64_t *restrict high,
                               const int64_t *restrict end_ps, uint32_t count, int64_t arrival_ps) {
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t answer_ps = (uint64_t)(end_ps[i] - arrival_ps);
    low[i] += answer_ps & LOW_MASK;
    high[i] += answer_ps >> LOW_BITS;
  }
}

/* One server and nothing on the other device, which most jobs are. */
WIDEST static void serve_alone(int64_t *restrict free_ps, uint64_t *restrict low,
                               uint64_t *restrict high, uint32_t count, int64_t arrival_ps,
                               int64_t service_ps) {
  for (uint32_t i = 0; i < count; i++) {
    const int64_t end_ps = max_ps(free_ps[i], arrival_ps) + service_ps;
    const uint64_t answer_ps = (uint64_t)(end_ps - arrival_ps);
    free_ps[i] = end_ps;
    low[i] += answer_ps & LOW_MASK;
    high[i] += answer_ps >> LOW_BITS;
  }
}

/* Serves a job's parts, each on its device. */
static void serve_parts(struct fcfs_queues *queues, uint32_t device, const struct piece *piece,
                        int64_t arrival_ps, enum fcfs_part part) {
  const uint32_t count = piece->end - piece->begin;
  const int64_t parts_ps[2] = {piece->base_ps, piece->nvm_ps};
  for (int place = 0; place < 2; place++) {
    if (parts_ps[place] < 0)
      continue;
    if (queues->servers[place] == 1)
      serve_one(row_of(queues, device, piece, place), queues->end_ps + piece->begin, count,
                arrival_ps, parts_ps[place]);
    else
      serve_many(queues, device, piece, place, arrival_ps, part);
  }
}

/* Begins the ends of a job: now, or for data with what they take after their flush. */
static void begin_ends(const struct fcfs_queues *queues, const struct piece *piece,
                       int64_t arrival_ps, bool are_data) {
  const int64_t takes_ps = max_ps(piece->base_ps, piece->nvm_ps);
  for (uint32_t i = piece->begin; i < piece->end; i++)
    queues->end_ps[i] = are_data ? queues->flushed_ps[i] + takes_ps : arrival_ps;
}

static void note_flushed(const struct fcfs_queues *queues, const struct piece *piece) {
  for (uint32_t i = piece->begin; i < piece->end; i++)
    queues->flushed_ps[i] = queues->end_ps[i];
}

static void note_late(const struct fcfs_queues *queues, const struct piece *piece) {
  for (uint32_t i = piece->begin; i < piece->end; i++)
    queues->late_ps[i] = max_ps(queues->late_ps[i], queues->end_ps[i]);
}

int64_t fcfs_serve(struct fcfs_queues *queues, uint32_t device, const struct piece *piece,
                   int64_t arrival_ps, enum fcfs_part part) {
  const uint32_t count = piece->end - piece->begin;
  const int64_t parts_ps[2] = {piece->base_ps, piece->nvm_ps};
  uint64_t *low = queues->low + piece->begin;
  uint64_t *high = queues->high + piece->begin;
  const int only = parts_ps[1] < 0 ? 0 : 1;
  const bool is_whole = part != FCFS_PREFLUSH && part != FCFS_DATA;
  if (is_whole && parts_ps[1 - only] < 0 && queues->servers[only] == 1) {
    int64_t *free_ps = row_of(queues, device, piece, only);
    serve_alone(free_ps, low, high, count, arrival_ps, parts_ps[only]);
    return free_ps[0] - arrival_ps;
  }
  int64_t *end_ps = queues->end_ps + piece->begin;
  begin_ends(queues, piece, arrival_ps, part == FCFS_DATA);
  serve_parts(queues, device, piece, arrival_ps, part);
  if (part == FCFS_PREFLUSH)
    note_flushed(queues, piece);
  if (part == FCFS_DATA)
    note_late(queues, piece);
  if (part != FCFS_PREFLUSH)
    add_answers(low, high, end_ps, count, arrival_ps);
  return end_ps[0] - arrival_ps;
}

struct tk_wide fcfs_answer_ps(const struct fcfs_queues *queues, uint32_t placement) {
  struct tk_wide sum = {queues->low[placement], 0};
  const uint64_t high = queues->high[placement];
  sum.low += high << LOW_BITS;
  sum.high = (high >> LOW_BITS) + (sum.low < high << LOW_BITS);
  return sum;
}

int64_t fcfs_done_ps(const struct fcfs_queues *queues, uint32_t placement) {
  int64_t done_ps = queues->late_ps[placement];
  const size_t rows[2] = {(size_t)queues->devices * queues->servers[0], queues->servers[1]};
  for (int place = 0; place < 2; place++)
    for (size_t row = 0; row < rows[place]; row++)
      done_ps = max_ps(done_ps, queues->free_ps[place][row * queues->count + placement]);
  return done_ps;
}

void fcfs_free(struct fcfs_queues *queues) {
  if (queues == NULL)
    return;
  free(queues->free_ps[0]);
  free(queues->free_ps[1]);
  free(queues->low);
  free(queues->high);
  free(queues->end_ps);
  free(queues->flushed_ps);
  free(queues->late_ps);
  free(queues->written_ps[0]);
  free(queues->written_ps[1]);
  free(queues);
}
