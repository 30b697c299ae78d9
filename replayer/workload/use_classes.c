#include "workload/use_classes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define CLASS_PLACES 16U /* of a class that are looked at */
#define NEAR_RATIO 4U
#define NEAR_PLACES 4U /* that are near however short the distance */

static uint32_t class_of(uint32_t uses) {
  uint32_t class = uses == 0 ? 0 : 32U - (uint32_t)__builtin_clz(uses);
  return class < USE_CLASSES ? class : USE_CLASSES - 1;
}

int popularity_new(uint64_t most, struct popularity **out) {
  struct popularity *popularity = calloc(1, sizeof *popularity);
  if (popularity == NULL)
    return -ENOMEM;
  for (int at = 0; at < 2; at++) {
    popularity->pages[at].most = most;
    popularity->requests[at].most = most;
  }
  *out = popularity;
  return 0;
}

void popularity_free(struct popularity *popularity) {
  for (uint32_t at = 0; popularity != NULL && at < 2 * USE_CLASSES; at++) {
    recency_free(popularity->pages[at % 2].places[at / 2]);
    recency_free(popularity->requests[at % 2].places[at / 2]);
  }
  free(popularity);
}

static void forget(struct recency *places, uint64_t place) {
  if (places != NULL)
    recency_forget(places, place);
}

int use_classes_note(struct use_classes *classes, uint64_t place, uint32_t before, uint32_t now) {
  if (class_of(before) != class_of(now))
    forget(classes->places[class_of(before)], place);
  struct recency **places = &classes->places[class_of(now)];
  int status = *places == NULL ? recency_new(classes->most, places) : 0;
  return status == 0 ? recency_use(*places, place, 0) : status;
}

static const struct recency *places_of(const struct use_search *search) {
  return search->classes->places[search->class];
}

static uint64_t count_of(const struct use_search *search) {
  const struct recency *places = places_of(search);
  return places == NULL ? 0 : recency_count(places);
}

/* Returns how far back a place of the class is among all; what those forgot is the farthest. */
static uint64_t back_of(const struct use_search *search, uint64_t at) {
  uint64_t back = recency_back(search->all, recency_at(places_of(search), at));
  return back == 0 ? UINT64_MAX : back;
}

/* Finds the places of the class around the distance. */
static void begin_class(struct use_search *search) {
  uint64_t low = 0;
  uint64_t high = count_of(search);
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (back_of(search, middle) < search->back)
      low = middle + 1;
    else
      high = middle;
  }
  search->older = low;
  search->newer = low;
  search->left = CLASS_PLACES;
}

struct use_search use_search_begin(const struct use_classes *classes, const struct recency *all,
                                   uint64_t back, const double *shares, struct rng *rng) {
  struct use_search search = {.classes = classes, .all = all, .back = back, .class = USE_CLASSES};
  uint32_t band = (63U - (uint32_t)__builtin_clzll(back)) / 2;
  const double *row = &shares[(band < USE_BANDS ? band : USE_BANDS - 1) * USE_CLASSES];
  if (row[USE_CLASSES - 1] == 0.0)
    return search;
  double unit = rng_unit(rng);
  search.class = 0;
  while (search.class < USE_CLASSES - 1 && row[search.class] <= unit)
    search.class++;
  search.wanted = search.class;
  begin_class(&search);
  return search;
}

/* Returns the next place of the class that is near; RECENCY_NOWHERE if there is none. */
static uint64_t next_of_class(struct use_search *search) {
  bool has_older = search->older < count_of(search);
  uint64_t above = has_older ? back_of(search, search->older) : UINT64_MAX;
  uint64_t below = search->newer > 0 ? back_of(search, search->newer - 1) : 0;
  bool is_older = has_older && (below == 0 || above - search->back < search->back - below);
  if (search->left == 0 || (!is_older && below == 0))
    return RECENCY_NOWHERE;
  search->left--;
  uint64_t high = is_older ? above : search->back;
  uint64_t low = is_older ? search->back : below;
  if (high / low >= NEAR_RATIO && high - low > NEAR_PLACES)
    return RECENCY_NOWHERE;
  return recency_at(places_of(search), is_older ? search->older++ : --search->newer);
}

uint64_t use_search_next(struct use_search *search) {
  while (search->class < USE_CLASSES) {
    uint64_t place = next_of_class(search);
    if (place != RECENCY_NOWHERE)
      return place;
    if (search->class > 0 && search->class <= search->wanted)
      search->class--;
    else
      search->class = search->class <= search->wanted ? search->wanted + 1 : search->class + 1;
    if (search->class < USE_CLASSES)
      begin_class(search);
  }
  return RECENCY_NOWHERE;
}
