#include "workload/follow.h"

#include <math.h>
#include <stdbool.h>

#define FRESH_TRIES 32

int follow_is_valid(const struct follow_setup *setup, uint64_t most_sectors,
                    uint64_t region_sectors) {
  if (setup->mode == FOLLOW_CIRCLE)
    return setup->circle_sectors >= most_sectors && setup->circle_first <= region_sectors &&
           setup->circle_sectors <= region_sectors - setup->circle_first;
  return setup->mode <= FOLLOW_AGAIN;
}

void follow_init(struct follower *follower, struct working_set *working_set) {
  *follower = (struct follower){.working_set = working_set,
                                .end_sector = WORKING_SET_NOWHERE,
                                .left_sector = WORKING_SET_NOWHERE,
                                .circle_sector = WORKING_SET_NOWHERE};
}

/* Finds pages that were not used, with space for the run or as much of it as there is. */
static uint64_t fresh_place(struct working_set *working_set, const struct place *place,
                            struct rng *rng, const struct follow_request *request) {
  uint64_t wanted = request->sectors + request->ahead.sectors;
  uint64_t align = place->setup.align_sectors;
  uint64_t found = 0;
  uint64_t most = 0;
  for (int left = FRESH_TRIES; left > 0 && most < wanted; left--) {
    uint64_t start = place_draw(place, request->sectors, rng);
    if (request->sectors >= WORKING_SET_PAGE_SECTORS && WORKING_SET_PAGE_SECTORS % align == 0)
      start -= start % WORKING_SET_PAGE_SECTORS;
    uint64_t free_sectors = working_set_free_sectors(working_set, start, wanted);
    if (free_sectors > most || left == FRESH_TRIES) {
      found = start;
      most = free_sectors;
    }
  }
  if (most >= request->sectors)
    return found;
  return working_set_gap(working_set, found, request->sectors, align);
}

static uint64_t used_place(const struct working_set *working_set, const struct place *place,
                           struct rng *rng, const struct follow_request *request, uint64_t back) {
  const struct working_set_query query = {
      .back = back,
      .sectors = request->sectors,
      .align_sectors = place->setup.align_sectors,
      .is_write = request->is_write,
      .uses = request->uses,
      .ahead = request->ahead,
  };
  return working_set_find_used(working_set, &query, rng);
}

/* Finds an earlier request so far back, and takes its length: loads come back to whole records.
 * WORKING_SET_NOWHERE where there is none. */
static uint64_t again(const struct working_set *working_set, uint64_t back, struct rng *rng,
                      struct follow_request *request) {
  const struct working_set_query query = {.back = back,
                                          .sectors = request->sectors,
                                          .most_sectors = request->most_sectors,
                                          .is_write = request->is_write,
                                          .uses = request->uses,
                                          .ahead = request->ahead};
  struct working_set_run found = working_set_find_again(working_set, &query, rng);
  if (found.sectors == 0)
    return WORKING_SET_NOWHERE;
  request->sectors = found.sectors;
  return found.first_sector;
}

/* Begins a run: on used pages as far back as is drawn, or on others. */
static uint64_t elsewhere(struct follower *follower, const struct follow_setup *setup,
                          const struct place *place, struct rng *rng,
                          struct follow_request *request) {
  struct working_set *working_set = follower->working_set;
  struct follow_request turned = *request;
  turned.ahead.is_used = !request->ahead.is_used;
  turned.ahead.back = (struct working_set_span){0, UINT64_MAX};
  follower->debt = 0;
  if (!setup->is_used) {
    int is_even = request->ahead.is_used;
    uint64_t due =
        working_set_due(working_set, request->sectors + (is_even ? 0 : request->ahead.sectors));
    if (due == 0)
      return fresh_place(working_set, place, rng, request);
    follower->debt = -1;
    return used_place(working_set, place, rng, is_even ? request : &turned, due);
  }
  uint64_t back = (uint64_t)fmax(floor(dist_draw(&place->setup.distance, rng)), 1.0);
  if (setup->mode == FOLLOW_AGAIN) {
    uint64_t start = again(working_set, back, rng, request);
    if (start != WORKING_SET_NOWHERE)
      return start;
    back *= (request->sectors + WORKING_SET_PAGE_SECTORS - 1) / WORKING_SET_PAGE_SECTORS;
  }
  if (back <= working_set_count(working_set))
    return used_place(working_set, place, rng, request, back);
  working_set_owe(working_set, back);
  follower->debt = 1;
  return fresh_place(working_set, place, rng, request);
}

static uint64_t next_on_circle(struct follower *follower, const struct follow_setup *setup,
                               uint64_t sectors) {
  uint64_t end = setup->circle_first + setup->circle_sectors;
  uint64_t start = follower->circle_sector;
  if (start == WORKING_SET_NOWHERE || start + sectors > end)
    start = setup->circle_first;
  follower->circle_sector = start + sectors;
  return start;
}

/* Says whether a request that goes on is on used pages, as its run is. */
static int will_use(const struct follower *follower, const struct follow_setup *setup) {
  return follower->debt == 0 ? setup->is_used != 0 : follower->debt < 0;
}

/* Says where the request goes on or resumes; WORKING_SET_NOWHERE if it does neither, or if the
 * pages there are not of its sort. What would pass the end begins again at the start. */
static uint64_t behind(const struct follower *follower, const struct follow_setup *setup,
                       const struct place *place, uint64_t sectors) {
  uint64_t start = setup->mode == FOLLOW_ON        ? follower->end_sector
                   : setup->mode == FOLLOW_RESUMED ? follower->left_sector
                                                   : WORKING_SET_NOWHERE;
  if (start == WORKING_SET_NOWHERE)
    return start;
  /* New pages begin where a page does, unless the request begins one behind a part of another. */
  uint64_t rest = working_set_rest(start);
  bool is_whole = place->setup.align_sectors >= WORKING_SET_PAGE_SECTORS;
  if (!will_use(follower, setup) && (is_whole || rest >= sectors))
    start += rest;
  if (start > place->setup.sectors - sectors)
    start = 0;
  int is_right = will_use(follower, setup)
                     ? working_set_is_used(follower->working_set, start, sectors)
                     : working_set_is_free_behind(follower->working_set, start, sectors);
  if (follower->debt == 0 && setup->is_used)
    is_right = is_right && working_set_is_back(follower->working_set, start, sectors, &setup->back);
  return is_right ? start : WORKING_SET_NOWHERE;
}

static int use(struct follower *follower, const struct follow_request *request, uint64_t sector) {
  const struct working_set_run run = {sector, request->sectors, (uint64_t)request->is_write};
  return working_set_use(follower->working_set, &run);
}

int follow_next(struct follower *follower, const struct follow_setup *setup,
                const struct place *place, struct rng *rng, struct follow_request *request,
                uint64_t *sector) {
  if (setup->mode == FOLLOW_CIRCLE) {
    *sector = next_on_circle(follower, setup, request->sectors);
    return use(follower, request, *sector);
  }
  if (setup->mode == FOLLOW_RESUMED)
    follower->debt = 0;
  uint64_t start = behind(follower, setup, place, request->sectors);
  if (start == WORKING_SET_NOWHERE)
    start = elsewhere(follower, setup, place, rng, request);
  if (follower->debt != 0 && (follower->debt > 0) == (setup->is_used != 0))
    working_set_balance(follower->working_set, follower->debt * (int64_t)request->sectors);
  if (start != follower->end_sector)
    follower->left_sector = follower->end_sector;
  follower->end_sector = start + request->sectors;
  *sector = start;
  return use(follower, request, start);
}
