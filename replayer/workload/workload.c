#include "workload/workload.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct class_state {
  struct workload_class setup;
  struct place place;
  uint64_t next_sector; /* where its run goes on */
  uint64_t end_sector;  /* of its last request, if it follows; UINT64_MAX before the first */
  uint64_t left;        /* requests of the run */
};

struct stream {
  struct arrival arrival;
  struct rng rng;
  struct class_state *classes;
  uint32_t class_count;
  int64_t next_ns;
  /* Of the classes that follow. */
  struct recency *recency;
  uint64_t first_sector; /* the region, and its sectors */
  uint64_t sectors;
  int owns_recency;
  uint64_t end_sector;  /* of the last request; UINT64_MAX before the first */
  uint64_t left_sector; /* where the run before the last one ended; likewise */
  int went_on;
};

struct workload {
  struct stream *streams;
  uint32_t stream_count;
  uint64_t next_id;
};

static int is_ratio(double ratio) { return ratio >= 0.0 && ratio <= 1.0; }

static int class_is_valid(const struct workload_class *setup) {
  if (setup->operation == WORKLOAD_FLUSH)
    return 1;
  if (setup->follows && !(is_ratio(setup->goes_on[0]) && is_ratio(setup->goes_on[1]) &&
                          is_ratio(setup->resumes[0]) && is_ratio(setup->resumes[1])))
    return 0;
  return dist_is_valid(&setup->size) && (!setup->has_runs || dist_is_valid(&setup->run)) &&
         setup->size_unit > 0 && setup->size_least > 0 &&
         setup->size_least % setup->size_unit == 0 && setup->size_most % setup->size_unit == 0 &&
         setup->size_least <= setup->size_most && setup->size_most <= setup->place.sectors;
}

static int class_init(struct class_state *state, const struct workload_class *setup,
                      struct recency *shared) {
  state->setup = *setup;
  if (!class_is_valid(setup))
    return -EINVAL;
  if (setup->operation == WORKLOAD_FLUSH)
    return 0;
  state->next_sector = setup->place.first_sector;
  state->end_sector = UINT64_MAX;
  state->left = setup->has_runs ? 0 : UINT64_MAX;
  return place_init(&state->place, &setup->place, setup->follows ? shared : NULL);
}

/* Shares the places used by classes that follow with an earlier stream of the same region. */
static int share_places(struct workload *workload, struct stream *stream,
                        const struct workload_stream *setup) {
  const struct place_setup *region = NULL;
  for (uint32_t at = 0; at < setup->class_count && region == NULL; at++)
    if (setup->classes[at].follows && setup->classes[at].operation != WORKLOAD_FLUSH)
      region = &setup->classes[at].place;
  if (region == NULL)
    return 0;
  stream->first_sector = region->first_sector;
  stream->sectors = region->sectors;
  for (const struct stream *other = workload->streams; other < stream; other++)
    if (other->recency != NULL && other->first_sector == stream->first_sector &&
        other->sectors == stream->sectors) {
      stream->recency = other->recency;
      return 0;
    }
  stream->owns_recency = 1;
  return recency_new(region->most_places, &stream->recency);
}

static int stream_init(struct workload *workload, struct stream *stream,
                       const struct workload_stream *setup) {
  if (setup->class_count == 0 || setup->classes[setup->class_count - 1].share_to != 1.0)
    return -EINVAL;
  stream->classes = calloc(setup->class_count, sizeof *stream->classes);
  if (stream->classes == NULL)
    return -ENOMEM;
  stream->class_count = setup->class_count;
  stream->rng = rng_of(&setup->seed);
  stream->end_sector = UINT64_MAX;
  stream->left_sector = UINT64_MAX;
  int status = share_places(workload, stream, setup);
  for (uint32_t at = 0; status == 0 && at < setup->class_count; at++)
    status = class_init(&stream->classes[at], &setup->classes[at], stream->recency);
  if (status != 0)
    return status;
  status = arrival_init(&stream->arrival, &setup->arrival, rng_of(&setup->arrival_seed));
  if (status == 0)
    stream->next_ns = arrival_next(&stream->arrival);
  return status;
}

int tk_workload_new(const struct workload_stream *streams, uint32_t count, struct workload **out) {
  if (count == 0 || count > WORKLOAD_STREAMS)
    return -EINVAL;
  struct workload *workload = calloc(1, sizeof *workload);
  if (workload == NULL)
    return -ENOMEM;
  workload->streams = calloc(count, sizeof *workload->streams);
  int status = workload->streams == NULL ? -ENOMEM : 0;
  for (; status == 0 && workload->stream_count < count; workload->stream_count++)
    status = stream_init(workload, &workload->streams[workload->stream_count],
                         &streams[workload->stream_count]);
  if (status != 0) {
    tk_workload_free(workload);
    return status;
  }
  *out = workload;
  return 0;
}

static struct class_state *choose(struct stream *stream) {
  if (stream->class_count == 1)
    return stream->classes;
  double unit = rng_unit(&stream->rng);
  struct class_state *found = stream->classes;
  while (found->setup.share_to <= unit)
    found++;
  return found;
}

static uint32_t draw_sectors(const struct class_state *state, struct rng *rng) {
  const struct workload_class *setup = &state->setup;
  double units = floor(dist_draw(&setup->size, rng) / (double)setup->size_unit + 0.5);
  if (units * (double)setup->size_unit >= (double)setup->size_most)
    return setup->size_most;
  uint32_t sectors = (uint32_t)units * setup->size_unit;
  return sectors > setup->size_least ? sectors : setup->size_least;
}

/* Starts a run where one is drawn; an endless one starts anew at the start of the region. */
static int begin_run(struct class_state *state, uint32_t sectors, struct rng *rng) {
  if (!state->setup.has_runs) {
    state->next_sector = state->setup.place.first_sector;
    return 0;
  }
  double requests = fmin(dist_draw(&state->setup.run, rng), 0x1p62);
  state->left = requests < 1.5 ? 1 : (uint64_t)(requests + 0.5);
  return place_next(&state->place, sectors, rng, &state->next_sector);
}

static int fits(const struct class_state *state, uint64_t sector, uint32_t sectors) {
  const struct place_setup *region = &state->setup.place;
  return sector != UINT64_MAX && sector + sectors <= region->first_sector + region->sectors;
}

/* Goes on where the stream's last request ended, or resumes where the class's own last request
 * ended or the run before that one, as likely as the class says, or begins elsewhere. What would
 * pass the end of the region begins again at its start. */
static int follow(struct stream *stream, struct class_state *state, uint32_t sectors) {
  const struct workload_class *setup = &state->setup;
  if (rng_unit(&stream->rng) < setup->goes_on[stream->went_on] &&
      stream->end_sector != UINT64_MAX) {
    stream->went_on = fits(state, stream->end_sector, sectors);
    state->next_sector = stream->went_on ? stream->end_sector : setup->place.first_sector;
    return place_use(&state->place, state->next_sector);
  }
  const uint64_t ends[2] = {state->end_sector, stream->left_sector};
  stream->went_on = 0;
  stream->left_sector = stream->end_sector;
  for (int which = 0; which < 2; which++)
    if (setup->resumes[which] > 0.0 && rng_unit(&stream->rng) < setup->resumes[which] &&
        ends[which] != UINT64_MAX) {
      int goes = fits(state, ends[which], sectors);
      state->next_sector = goes ? ends[which] : setup->place.first_sector;
      return place_use(&state->place, state->next_sector);
    }
  return place_next(&state->place, sectors, &stream->rng, &state->next_sector);
}

static int run_on(struct stream *stream, struct class_state *state, uint32_t sectors) {
  const struct place_setup *region = &state->setup.place;
  uint64_t end = region->first_sector + region->sectors;
  if (state->left == 0 || state->next_sector + sectors > end)
    return begin_run(state, sectors, &stream->rng);
  return 0;
}

static int fill_record(struct stream *stream, struct workload_record *record) {
  struct class_state *state = choose(stream);
  record->operation = state->setup.operation;
  record->flags = state->setup.flags;
  if (record->operation == WORKLOAD_FLUSH)
    return 0;
  const struct place_setup *region = &state->setup.place;
  uint32_t sectors = draw_sectors(state, &stream->rng);
  int status =
      state->setup.follows ? follow(stream, state, sectors) : run_on(stream, state, sectors);
  if (status != 0)
    return status;
  record->sector = state->next_sector;
  record->length_sectors = sectors;
  uint64_t past = state->next_sector + sectors;
  if (state->setup.follows) {
    stream->end_sector = past;
    state->end_sector = past;
  } else {
    uint64_t align = region->align_sectors;
    past -= region->first_sector;
    state->next_sector = region->first_sector + (past + align - 1) / align * align;
    if (state->setup.has_runs)
      state->left--;
  }
  return 0;
}

static uint32_t earliest(const struct workload *workload) {
  uint32_t found = 0;
  for (uint32_t at = 1; at < workload->stream_count; at++)
    if (workload->streams[at].next_ns < workload->streams[found].next_ns)
      found = at;
  return found;
}

int64_t tk_workload_fill(struct workload *workload, struct workload_record *records, uint64_t count,
                         int64_t until_ns) {
  for (uint64_t done = 0; done < count; done++) {
    uint32_t number = earliest(workload);
    struct stream *stream = &workload->streams[number];
    if (stream->next_ns >= until_ns)
      return (int64_t)done;
    records[done] = (struct workload_record){.intended_ns = (uint64_t)stream->next_ns,
                                             .request_id = workload->next_id++,
                                             .target = (uint16_t)number};
    int status = fill_record(stream, &records[done]);
    if (status != 0)
      return status;
    stream->next_ns = arrival_next(&stream->arrival);
  }
  return (int64_t)count;
}

void tk_workload_free(struct workload *workload) {
  if (workload == NULL)
    return;
  for (uint32_t at = 0; at < workload->stream_count; at++) {
    struct stream *stream = &workload->streams[at];
    for (uint32_t class = 0; stream->classes && class < stream->class_count; class++)
      place_end(&stream->classes[class].place);
    if (stream->owns_recency)
      recency_free(stream->recency);
    free(stream->classes);
  }
  free(workload->streams);
  free(workload);
}
