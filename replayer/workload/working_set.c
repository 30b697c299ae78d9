#include "workload/working_set.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "workload/recency.h"

#define QUERY_STEPS 256
#define GAP_STEPS 4096
#define FULL_MOST 10
#define AHEAD_MOST 512U /* sectors of used pages that are looked at */
#define OWED 1024U      /* a power of two */
#define NEAR 16U        /* requests back: so few are taken whatever their length */

struct working_set {
  struct recency *pages;
  struct recency *requests; /* by where they begin; noted: their sectors */
  uint64_t sectors;
  uint64_t owed[OWED]; /* how far back; a ring */
  uint64_t owed_from;
  uint64_t owed_to;
  int64_t owed_sectors;
  unsigned full; /* how often in a row no gap was found, up to FULL_MOST */
};

static uint64_t page_of(uint64_t sector) { return sector / WORKING_SET_PAGE_SECTORS; }

/* Returns the first page that a request begins, or its only one where it begins none: a page that
 * it shares with the request before it does not say whether its own pages were used. */
static uint64_t first_begun(uint64_t sector, uint64_t sectors) {
  uint64_t rest = working_set_rest(sector);
  return page_of(rest < sectors ? sector + rest : sector);
}

int tk_working_set_new(uint64_t sectors, uint64_t most, struct working_set **out) {
  if (sectors == 0)
    return -EINVAL;
  struct working_set *set = calloc(1, sizeof *set);
  if (set == NULL)
    return -ENOMEM;
  set->sectors = sectors;
  int status = recency_new(most, &set->pages);
  if (status == 0)
    status = recency_new(most, &set->requests);
  if (status != 0) {
    tk_working_set_free(set);
    return status;
  }
  *out = set;
  return 0;
}

void tk_working_set_free(struct working_set *set) {
  if (set != NULL) {
    recency_free(set->pages);
    recency_free(set->requests);
  }
  free(set);
}

int working_set_use(struct working_set *set, uint64_t sector, uint64_t sectors) {
  int status = recency_use(set->requests, sector, sectors);
  uint64_t last = page_of(sector + sectors - 1);
  for (uint64_t page = page_of(sector); status == 0 && page <= last; page++)
    status = recency_use(set->pages, page, 0);
  return status;
}

uint64_t working_set_free_sectors(const struct working_set *set, uint64_t sector,
                                  uint64_t sectors) {
  uint64_t end = sector + sectors < set->sectors ? sector + sectors : set->sectors;
  for (uint64_t page = page_of(sector); page * WORKING_SET_PAGE_SECTORS < end; page++)
    if (recency_has(set->pages, page))
      end = page * WORKING_SET_PAGE_SECTORS;
  return end > sector ? end - sector : 0;
}

int working_set_is_free(const struct working_set *set, uint64_t sector, uint64_t sectors) {
  uint64_t left = set->sectors > sector ? set->sectors - sector : 0;
  return working_set_free_sectors(set, sector, sectors) == (sectors < left ? sectors : left);
}

int working_set_is_free_behind(const struct working_set *set, uint64_t sector, uint64_t sectors) {
  uint64_t rest = working_set_rest(sector);
  return rest >= sectors || working_set_is_free(set, sector + rest, sectors - rest);
}

int working_set_is_used(const struct working_set *set, uint64_t sector, uint64_t sectors) {
  if (sector + sectors > set->sectors)
    return 0;
  for (uint64_t page = page_of(sector); page <= page_of(sector + sectors - 1); page++)
    if (!recency_has(set->pages, page))
      return 0;
  return 1;
}

int working_set_is_back(const struct working_set *set, uint64_t sector, uint64_t sectors,
                        const struct working_set_span *span) {
  uint64_t back = recency_back(set->pages, first_begun(sector, sectors));
  return back > 0 && back >= span->from && back <= span->to;
}

/* Says whether a run that ends there could go on as asked. */
static int goes_on(const struct working_set *set, uint64_t end,
                   const struct working_set_ahead *ahead) {
  if (ahead->sectors == 0)
    return 1;
  uint64_t behind = (page_of(end - 1) + 1) * WORKING_SET_PAGE_SECTORS;
  if (ahead->is_used)
    return working_set_is_back(set, behind, ahead->sectors, &ahead->back) &&
           working_set_is_used(set, behind,
                               ahead->sectors < AHEAD_MOST ? ahead->sectors : AHEAD_MOST);
  return behind < set->sectors && working_set_is_free(set, behind, ahead->sectors);
}

int tk_working_set_see(struct working_set *set, const struct working_set_run *runs, uint64_t count,
                       uint32_t *back, uint32_t *again) {
  for (uint64_t at = 0; at < count; at++) {
    uint64_t first = runs[at].first_sector;
    uint64_t sectors = runs[at].sectors;
    if (sectors == 0 || first > set->sectors || sectors > set->sectors - first)
      return -EINVAL;
    back[at] = (uint32_t)recency_back(set->pages, first_begun(first, sectors));
    uint64_t earlier = recency_back(set->requests, first);
    bool is_again = earlier > 0 && recency_note(set->requests, first) == sectors;
    again[at] = is_again ? (uint32_t)earlier : 0;
    int status = working_set_use(set, first, sectors);
    if (status != 0)
      return status;
  }
  return 0;
}

/* Returns where a request begins in a page: at its start, or if it is smaller than a page and may,
 * anywhere within it, or at its end if the run goes on with the next page. */
static uint64_t within_page(const struct working_set_query *query, struct rng *rng) {
  if (query->align_sectors >= WORKING_SET_PAGE_SECTORS ||
      query->sectors >= WORKING_SET_PAGE_SECTORS)
    return 0;
  if (query->ahead.sectors > 0 && !query->ahead.is_used)
    return WORKING_SET_PAGE_SECTORS - query->sectors;
  uint64_t choices = (WORKING_SET_PAGE_SECTORS - query->sectors) / query->align_sectors + 1;
  return rng_below(rng, choices) * query->align_sectors;
}

/* Returns the place that lies `step` steps around the one asked for: itself, one further back, one
 * less far, two further back and so on; WORKING_SET_NOWHERE if there is none. */
static uint64_t place_near(const struct recency *places, uint64_t back, uint64_t step) {
  uint64_t off = (step + 1) / 2;
  if (step % 2 == 0 && off >= back)
    return WORKING_SET_NOWHERE;
  uint64_t found = step % 2 == 0 ? back - off : back + off;
  if (found > recency_count(places))
    return WORKING_SET_NOWHERE;
  return recency_at(places, found - 1);
}

uint64_t working_set_find_used(const struct working_set *set, const struct working_set_query *query,
                               struct rng *rng) {
  uint64_t inside = within_page(query, rng);
  uint64_t found = WORKING_SET_NOWHERE;
  for (uint64_t step = 0; step < QUERY_STEPS; step++) {
    uint64_t page = place_near(set->pages, query->back, step);
    uint64_t sector = page * WORKING_SET_PAGE_SECTORS + inside;
    if (page == WORKING_SET_NOWHERE || sector % query->align_sectors != 0 ||
        !working_set_is_used(set, sector, query->sectors))
      continue;
    if (goes_on(set, sector + query->sectors, &query->ahead))
      return sector;
    if (found == WORKING_SET_NOWHERE)
      found = sector;
  }
  if (found != WORKING_SET_NOWHERE)
    return found;
  uint64_t start = recency_at(set->pages, query->back - 1) * WORKING_SET_PAGE_SECTORS;
  start -= start % query->align_sectors;
  return start + query->sectors <= set->sectors ? start : 0;
}

static bool is_of_one_page(uint64_t sectors) { return sectors <= WORKING_SET_PAGE_SECTORS; }

/* Says whether lengths are of about as many pages: one is less than twice the other. */
static bool are_alike(uint64_t sectors, uint64_t wanted) {
  uint64_t pages = page_of(sectors + WORKING_SET_PAGE_SECTORS - 1);
  uint64_t wanted_pages = page_of(wanted + WORKING_SET_PAGE_SECTORS - 1);
  return pages < 2 * wanted_pages && wanted_pages < 2 * pages;
}

struct working_set_run working_set_find_again(const struct working_set *set,
                                              const struct working_set_query *query) {
  uint64_t back = query->back;
  struct working_set_run found = {0};
  if (back > recency_count(set->requests))
    return found;
  unsigned most = 0;
  for (uint64_t step = 0; step < QUERY_STEPS && most < 3; step++) {
    uint64_t first = place_near(set->requests, back, step);
    if (first == WORKING_SET_NOWHERE)
      continue;
    uint64_t sectors = recency_note(set->requests, first);
    if (is_of_one_page(sectors) != is_of_one_page(query->sectors) || sectors > query->most_sectors)
      continue;
    unsigned fits = 1;
    if (back <= NEAR || are_alike(sectors, query->sectors))
      fits += 1 + (unsigned)goes_on(set, first + sectors, &query->ahead);
    if (fits > most) {
      most = fits;
      found = (struct working_set_run){first, sectors};
    }
  }
  return found;
}

uint64_t working_set_gap(struct working_set *set, uint64_t sector, uint64_t sectors,
                         uint64_t align_sectors) {
  uint64_t step =
      align_sectors > WORKING_SET_PAGE_SECTORS ? align_sectors : WORKING_SET_PAGE_SECTORS;
  uint64_t last = set->sectors - sectors;
  uint64_t at = sector;
  for (int left = GAP_STEPS >> set->full; left > 0; left--) {
    if (working_set_is_free(set, at, sectors)) {
      set->full = 0;
      return at;
    }
    at = at + step <= last ? at + step : 0;
  }
  if (set->full < FULL_MOST)
    set->full++;
  return sector;
}

uint64_t working_set_count(const struct working_set *set) { return recency_count(set->pages); }

void working_set_owe(struct working_set *set, uint64_t back) {
  set->owed[set->owed_to++ & (OWED - 1)] = back;
  if (set->owed_to - set->owed_from > OWED)
    set->owed_from++;
}

uint64_t working_set_due(struct working_set *set, uint64_t sectors) {
  if (set->owed_from == set->owed_to || set->owed_sectors < (int64_t)sectors)
    return 0;
  uint64_t back = set->owed[set->owed_from & (OWED - 1)];
  if (back > recency_count(set->pages))
    return 0;
  set->owed_from++;
  return back;
}

void working_set_balance(struct working_set *set, int64_t sectors) { set->owed_sectors += sectors; }
