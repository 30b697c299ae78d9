#include "workload/workload.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define PLANNED 1024U /* requests ahead, a power of two */

struct class_state {
  struct workload_class setup;
  struct place place;
  uint64_t next_sector; /* where its run goes on */
  uint64_t left;        /* requests of the run */
  uint32_t *cards;      /* what is left of `then`; NULL without */
  uint64_t cards_left;
};

struct planned {
  struct class_state *class;
  uint32_t sectors;
};

struct stream {
  struct arrival arrival;
  struct rng rng;
  struct class_state *classes;
  struct class_state *last_class; /* that was chosen; NULL before the first */
  uint32_t class_count;
  int64_t next_ns;
  /* Of the classes that follow. */
  struct follower follower;
  struct planned *planned; /* a ring; NULL where nothing follows */
  uint64_t planned_from;
  uint64_t planned_to;
  uint64_t first_sector; /* the region, and its sectors */
  uint64_t sectors;
  int owns_working_set;
};

struct workload {
  struct stream *streams;
  uint32_t stream_count;
  uint64_t next_id;
};

static int class_is_valid(const struct workload_class *setup) {
  if (setup->operation == WORKLOAD_FLUSH)
    return 1;
  return dist_is_valid(&setup->size) && (!setup->has_runs || dist_is_valid(&setup->run)) &&
         setup->size_unit > 0 && setup->size_least > 0 &&
         setup->size_least % setup->size_unit == 0 && setup->size_most % setup->size_unit == 0 &&
         setup->size_least <= setup->size_most && setup->size_most <= setup->place.sectors &&
         follow_is_valid(&setup->follow, setup->size_most, setup->place.sectors) &&
         (!setup->follow.is_used || dist_is_valid(&setup->place.distance));
}

static int begin_dealing(struct class_state *state, uint32_t class_count) {
  if (state->setup.then == NULL)
    return 0;
  uint64_t total = 0;
  for (uint32_t at = 0; at < class_count; at++)
    total += state->setup.then[at];
  if (total == 0)
    return -EINVAL;
  state->cards = calloc(class_count, sizeof *state->cards);
  return state->cards == NULL ? -ENOMEM : 0;
}

static int class_init(struct class_state *state, const struct workload_class *setup,
                      uint32_t class_count) {
  state->setup = *setup;
  if (!class_is_valid(setup))
    return -EINVAL;
  int status = begin_dealing(state, class_count);
  if (status != 0)
    return status;
  if (setup->operation == WORKLOAD_FLUSH)
    return 0;
  state->next_sector = setup->place.first_sector;
  state->left = setup->has_runs ? 0 : UINT64_MAX;
  return place_init(&state->place, &setup->place, setup->follow.mode == FOLLOW_NOT);
}

/* Keeps used pages by how often they were where a class asks for that. */
static int keep_uses(struct stream *stream, const struct workload_stream *setup) {
  int status = 0;
  for (uint32_t at = 0; status == 0 && at < setup->class_count; at++)
    if (setup->classes[at].follow.uses != NULL)
      status = working_set_keep_uses(stream->follower.working_set);
  return status;
}

/* Starts the stream on its region, whose used pages it shares with earlier streams. */
static int begin_following(struct workload *workload, struct stream *stream,
                           const struct workload_stream *setup) {
  const struct place_setup *region = NULL;
  for (uint32_t at = 0; at < setup->class_count && region == NULL; at++)
    if (setup->classes[at].follow.mode != FOLLOW_NOT &&
        setup->classes[at].operation != WORKLOAD_FLUSH)
      region = &setup->classes[at].place;
  if (region == NULL)
    return 0;
  stream->first_sector = region->first_sector;
  stream->sectors = region->sectors;
  stream->planned = calloc(PLANNED, sizeof *stream->planned);
  if (stream->planned == NULL)
    return -ENOMEM;
  for (const struct stream *other = workload->streams; other < stream; other++)
    if (other->follower.working_set != NULL && other->first_sector == stream->first_sector &&
        other->sectors == stream->sectors) {
      follow_init(&stream->follower, other->follower.working_set);
      return keep_uses(stream, setup);
    }
  struct working_set *working_set = NULL;
  int status = tk_working_set_new(region->sectors, region->most_places, &working_set);
  stream->owns_working_set = status == 0;
  follow_init(&stream->follower, working_set);
  return status == 0 ? keep_uses(stream, setup) : status;
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
  int status = begin_following(workload, stream, setup);
  for (uint32_t at = 0; status == 0 && at < setup->class_count; at++)
    status = class_init(&stream->classes[at], &setup->classes[at], setup->class_count);
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

  /* stream_count grows with each stream that was begun, so that freeing knows which there are. */
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

static struct class_state *by_share(const struct stream *stream, double unit) {
  struct class_state *found = stream->classes;
  while (found->setup.share_to <= unit)
    found++;
  return found;
}

/* Deals what comes behind a class: as often as it says, in any order. */
static struct class_state *deal(struct stream *stream, struct class_state *last) {
  if (last->cards_left == 0)
    for (uint32_t at = 0; at < stream->class_count; at++) {
      last->cards[at] = last->setup.then[at];
      last->cards_left += last->cards[at];
    }
  uint64_t number = rng_below(&stream->rng, last->cards_left--);
  uint32_t at = 0;
  for (; number >= last->cards[at]; at++)
    number -= last->cards[at];
  last->cards[at]--;
  return &stream->classes[at];
}

static struct class_state *choose(struct stream *stream) {
  if (stream->class_count == 1)
    return stream->classes;
  struct class_state *last = stream->last_class;
  stream->last_class = last != NULL && last->cards != NULL
                           ? deal(stream, last)
                           : by_share(stream, rng_unit(&stream->rng));
  return stream->last_class;
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

static int run_on(struct stream *stream, struct class_state *state, uint32_t sectors) {
  const struct place_setup *region = &state->setup.place;
  uint64_t end = region->first_sector + region->sectors;
  if (state->left == 0 || state->next_sector + sectors > end)
    return begin_run(state, sectors, &stream->rng);
  return 0;
}

static struct planned *planned_at(const struct stream *stream, uint64_t number) {
  return &stream->planned[number & (PLANNED - 1)];
}

/* Returns the planned request of that number; NULL if it is too far ahead. */
static const struct planned *look_ahead(struct stream *stream, uint64_t number) {
  if (number >= stream->planned_from + PLANNED)
    return NULL;
  for (; stream->planned_to <= number; stream->planned_to++) {
    struct planned *planned = planned_at(stream, stream->planned_to);
    planned->class = choose(stream);
    planned->sectors = planned->class->setup.operation == WORKLOAD_FLUSH
                           ? 0
                           : draw_sectors(planned->class, &stream->rng);
  }
  return planned_at(stream, number);
}

static int is_of_a_run(const struct workload_class *setup) {
  return setup->operation != WORKLOAD_FLUSH && setup->follow.mode != FOLLOW_NOT &&
         setup->follow.mode != FOLLOW_CIRCLE;
}

/* Says how the run of the request taken last goes on; what is of no run may lie between. */
static struct working_set_ahead ahead_of(struct stream *stream) {
  struct working_set_ahead ahead = {0};
  for (uint64_t number = stream->planned_from;; number++) {
    const struct planned *next = look_ahead(stream, number);
    if (next == NULL)
      return ahead;
    const struct workload_class *setup = &next->class->setup;
    if (!is_of_a_run(setup))
      continue;
    int is_used = setup->follow.is_used != 0;
    if (setup->follow.mode != FOLLOW_ON || (ahead.sectors > 0 && is_used != ahead.is_used))
      return ahead;
    if (ahead.sectors == 0) {
      ahead.is_used = is_used;
      ahead.back = setup->follow.back;
    }
    ahead.sectors += next->sectors;
  }
}

static int follow(struct stream *stream, struct class_state *state,
                  struct workload_record *record) {
  struct follow_request request = {.sectors = record->length_sectors,
                                   .most_sectors = state->setup.size_most,
                                   .is_write = state->setup.operation == WORKLOAD_WRITE,
                                   .uses = state->setup.follow.uses};
  uint32_t mode = state->setup.follow.mode;
  if (mode == FOLLOW_RESUMED || mode == FOLLOW_ELSEWHERE || mode == FOLLOW_AGAIN)
    request.ahead = ahead_of(stream);
  int status = follow_next(&stream->follower, &state->setup.follow, &state->place, &stream->rng,
                           &request, &record->sector);
  record->sector += stream->first_sector;
  record->length_sectors = (uint32_t)request.sectors;
  return status;
}

static int run_to(struct stream *stream, struct class_state *state, uint32_t sectors,
                  uint64_t *sector) {
  const struct place_setup *region = &state->setup.place;
  int status = run_on(stream, state, sectors);
  *sector = state->next_sector;
  uint64_t align = region->align_sectors;
  uint64_t past = state->next_sector + sectors - region->first_sector;
  state->next_sector = region->first_sector + (past + align - 1) / align * align;
  if (state->setup.has_runs)
    state->left--;
  return status;
}

static int fill_record(struct stream *stream, struct workload_record *record) {
  struct planned next;
  if (stream->planned != NULL) {
    next = *look_ahead(stream, stream->planned_from);
    stream->planned_from++;
  } else {
    next.class = choose(stream);
    next.sectors = 0;
  }

  /* A flush has no place. Sizes that were planned ahead must not be drawn again. */
  const struct workload_class *setup = &next.class->setup;
  record->operation = setup->operation;
  record->flags = setup->flags;
  if (record->operation == WORKLOAD_FLUSH)
    return 0;
  if (stream->planned == NULL)
    next.sectors = draw_sectors(next.class, &stream->rng);
  record->length_sectors = next.sectors;
  if (setup->follow.mode != FOLLOW_NOT)
    return follow(stream, next.class, record);
  return run_to(stream, next.class, next.sectors, &record->sector);
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
    for (uint32_t class = 0; stream->classes && class < stream->class_count; class++) {
      place_end(&stream->classes[class].place);
      free(stream->classes[class].cards);
    }
    if (stream->owns_working_set)
      tk_working_set_free(stream->follower.working_set);
    free(stream->planned);
    free(stream->classes);
  }
  free(workload->streams);
  free(workload);
}
