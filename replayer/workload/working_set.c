#include "workload/working_set.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "workload/recency.h"
#include "workload/use_classes.h"

#define QUERY_STEPS 256
#define GAP_STEPS 4096
#define FULL_MOST 10
#define AHEAD_MOST 512U /* sectors of used pages that are looked at */
#define OWED 1024U      /* a power of two */
#define NEAR 16U        /* requests back: so few are taken whatever their length */

struct working_set {
  struct recency *pages;
  struct recency
      *requests; /* by where they begin and whether they write; noted: sectors and uses */
  struct popularity *popularity; /* NULL: nothing asks for them */
  uint64_t sectors;
  uint64_t most;       /* pages that are remembered */
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
  set->most = most;
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
    popularity_free(set->popularity);
  }
  free(set);
}

int working_set_keep_uses(struct working_set *set) {
  return set->popularity == NULL ? popularity_new(set->most, &set->popularity) : 0;
}

/* Two numbers that are noted of a place: of a page how often it was read and written, of a request
 * its sectors and how often there was one like it. */
struct note {
  uint32_t of[2];
};

static struct note noted(const struct recency *places, uint64_t place) {
  uint64_t note = recency_has(places, place) ? recency_note(places, place) : 0;
  return (struct note){{(uint32_t)note, (uint32_t)(note >> 32)}};
}

static int use(struct recency *places, uint64_t place, struct note note) {
  return recency_use(places, place, (uint64_t)note.of[1] << 32 | note.of[0]);
}

static int use_page(struct working_set *set, uint64_t page, int is_write) {
  struct note note = noted(set->pages, page);
  uint32_t before = note.of[is_write]++;
  int status = use(set->pages, page, note);
  if (set->popularity == NULL || status != 0)
    return status;
  uint32_t other = note.of[!is_write];
  status = use_classes_note(&set->popularity->pages[!is_write], page, other, other);
  if (status == 0)
    status = use_classes_note(&set->popularity->pages[is_write], page, before, before + 1);
  return status;
}

static uint64_t request_of(uint64_t sector, int is_write) {
  return sector << 1 | (uint64_t)is_write;
}

static int use_request(struct working_set *set, const struct working_set_run *run) {
  int is_write = run->is_write != 0;
  uint64_t request = request_of(run->first_sector, is_write);
  struct note note = noted(set->requests, request);
  uint32_t before = note.of[1];
  uint32_t now = note.of[0] == run->sectors ? before + 1 : 1;
  int status = use(set->requests, request, (struct note){{(uint32_t)run->sectors, now}});
  if (set->popularity == NULL || status != 0)
    return status;
  return use_classes_note(&set->popularity->requests[is_write], request, before, now);
}

int working_set_use(struct working_set *set, const struct working_set_run *run) {
  int status = use_request(set, run);
  uint64_t last = page_of(run->first_sector + run->sectors - 1);
  for (uint64_t page = page_of(run->first_sector); status == 0 && page <= last; page++)
    status = use_page(set, page, run->is_write != 0);
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

static int is_free(const struct working_set *set, uint64_t sector, uint64_t sectors) {
  uint64_t left = set->sectors > sector ? set->sectors - sector : 0;
  return working_set_free_sectors(set, sector, sectors) == (sectors < left ? sectors : left);
}

int working_set_is_free_behind(const struct working_set *set, uint64_t sector, uint64_t sectors) {
  uint64_t rest = working_set_rest(sector);
  return rest >= sectors || is_free(set, sector + rest, sectors - rest);
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
  return behind < set->sectors && is_free(set, behind, ahead->sectors);
}

int tk_working_set_see(struct working_set *set, const struct working_set_run *runs, uint64_t count,
                       struct working_set_seen *seen) {
  /* What a request finds is looked up before it uses its own pages. */
  for (uint64_t at = 0; at < count; at++) {
    uint64_t first = runs[at].first_sector;
    uint64_t sectors = runs[at].sectors;
    if (sectors == 0 || first > set->sectors || sectors > set->sectors - first)
      return -EINVAL;
    int is_write = runs[at].is_write != 0;
    uint64_t page = first_begun(first, sectors);
    uint64_t request = request_of(first, is_write);
    struct note same = noted(set->requests, request);
    seen[at] = (struct working_set_seen){.back = (uint32_t)recency_back(set->pages, page),
                                         .uses = noted(set->pages, page).of[is_write]};
    if (same.of[0] == sectors) {
      seen[at].again = (uint32_t)recency_back(set->requests, request);
      seen[at].repeats = same.of[1];
    }
    int status = working_set_use(set, &runs[at]);
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

/* Returns where a request on this page begins if all its pages are used, else WORKING_SET_NOWHERE.
 */
static uint64_t fitting(const struct working_set *set, const struct working_set_query *query,
                        uint64_t page, uint64_t inside) {
  uint64_t sector = page * WORKING_SET_PAGE_SECTORS + inside;
  bool fits = page != WORKING_SET_NOWHERE && sector % query->align_sectors == 0 &&
              working_set_is_used(set, sector, query->sectors);
  return fits ? sector : WORKING_SET_NOWHERE;
}

/* Finds a place whose page was used as often as is drawn; where none is near, the most used one of
 * those that were used less often; WORKING_SET_NOWHERE if there is none. */
static uint64_t find_as_often(const struct working_set *set, const struct working_set_query *query,
                              uint64_t inside, struct rng *rng) {
  struct use_search search = use_search_begin(&set->popularity->pages[query->is_write], set->pages,
                                              query->back, query->uses, rng);
  uint64_t found = WORKING_SET_NOWHERE;
  uint32_t most = 0;
  uint32_t class = search.wanted;
  for (;;) {
    uint64_t page = use_search_next(&search);
    if (page == RECENCY_NOWHERE || (found != WORKING_SET_NOWHERE && search.class != class))
      return found;
    uint64_t sector = fitting(set, query, page, inside);
    if (sector == WORKING_SET_NOWHERE || !goes_on(set, sector + query->sectors, &query->ahead))
      continue;
    if (search.class >= search.wanted)
      return sector;
    uint32_t uses = noted(set->pages, page).of[query->is_write];
    if (found == WORKING_SET_NOWHERE || uses > most) {
      found = sector;
      most = uses;
      class = search.class;
    }
  }
}

uint64_t working_set_find_used(const struct working_set *set, const struct working_set_query *query,
                               struct rng *rng) {
  uint64_t inside = within_page(query, rng);
  uint64_t found = WORKING_SET_NOWHERE;
  if (query->uses != NULL && set->popularity != NULL)
    found = find_as_often(set, query, inside, rng);
  if (found != WORKING_SET_NOWHERE)
    return found;
  for (uint64_t step = 0; step < QUERY_STEPS; step++) {
    uint64_t sector = fitting(set, query, place_near(set->pages, query->back, step), inside);
    if (sector == WORKING_SET_NOWHERE)
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

/* Says how well an earlier request fits, up to 3; 0: it does not. */
static unsigned fit_of(const struct working_set *set, const struct working_set_query *query,
                       uint64_t request) {
  uint64_t sectors = noted(set->requests, request).of[0];
  if ((request & 1) != (uint64_t)query->is_write || sectors > query->most_sectors ||
      is_of_one_page(sectors) != is_of_one_page(query->sectors))
    return 0;
  if (query->back > NEAR && !are_alike(sectors, query->sectors))
    return 1;
  return 2 + (unsigned)goes_on(set, (request >> 1) + sectors, &query->ahead);
}

static struct working_set_run run_of(const struct working_set *set, uint64_t request) {
  if (request == RECENCY_NOWHERE)
    return (struct working_set_run){0};
  return (struct working_set_run){request >> 1, noted(set->requests, request).of[0], request & 1};
}

/* Finds a request that there was as often as is drawn and that fits by 2 or more, the best of its
 * class; where none is near, the one most often of those less often; RECENCY_NOWHERE if none is. */
static uint64_t again_as_often(const struct working_set *set, const struct working_set_query *query,
                               struct rng *rng) {
  struct use_search search = use_search_begin(&set->popularity->requests[query->is_write],
                                              set->requests, query->back, query->uses, rng);
  uint64_t found = RECENCY_NOWHERE;
  uint64_t best = 0;
  uint32_t class = search.wanted;
  for (;;) {
    uint64_t request = use_search_next(&search);
    if (request == RECENCY_NOWHERE || (found != RECENCY_NOWHERE && search.class != class))
      return found;
    uint64_t fit = fit_of(set, query, request);
    if (search.class < search.wanted)
      fit = fit << 32 | noted(set->requests, request).of[1];
    if (fit_of(set, query, request) < 2 || fit <= best)
      continue;
    best = fit;
    found = request;
    class = search.class;
  }
}

struct working_set_run working_set_find_again(const struct working_set *set,
                                              const struct working_set_query *query,
                                              struct rng *rng) {
  uint64_t found = RECENCY_NOWHERE;
  if (query->back > recency_count(set->requests))
    return run_of(set, found);
  if (query->uses != NULL && set->popularity != NULL)
    found = again_as_often(set, query, rng);
  if (found != RECENCY_NOWHERE)
    return run_of(set, found);
  unsigned most = 0;
  for (uint64_t step = 0; step < QUERY_STEPS && most < 3; step++) {
    uint64_t request = place_near(set->requests, query->back, step);
    unsigned fit = request == RECENCY_NOWHERE ? 0 : fit_of(set, query, request);
    if (fit > most) {
      most = fit;
      found = request;
    }
  }
  return run_of(set, found);
}

uint64_t working_set_gap(struct working_set *set, uint64_t sector, uint64_t sectors,
                         uint64_t align_sectors) {
  uint64_t step =
      align_sectors > WORKING_SET_PAGE_SECTORS ? align_sectors : WORKING_SET_PAGE_SECTORS;
  uint64_t last = set->sectors - sectors;
  uint64_t at = sector;
  for (int left = GAP_STEPS >> set->full; left > 0; left--) {
    if (is_free(set, at, sectors)) {
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
