#include "workload/territory.h"

#include <errno.h>
#include <stdlib.h>

#include "workload/recency.h"

#define WISH_STEPS 256
#define GAP_STEPS 4096
#define FULL_MOST 10
#define AHEAD_MOST 512U /* sectors of used pages that are looked at */
#define OWED 1024U      /* a power of two */

struct territory {
  struct recency *pages;
  uint64_t sectors;
  uint64_t owed[OWED]; /* how far back; a ring */
  uint64_t owed_from;
  uint64_t owed_to;
  int64_t owed_sectors;
  unsigned full; /* how often in a row no gap was found, up to FULL_MOST */
};

static uint64_t page_of(uint64_t sector) { return sector / TERRITORY_PAGE_SECTORS; }

int tk_territory_new(uint64_t sectors, uint64_t most, struct territory **out) {
  if (sectors == 0)
    return -EINVAL;
  struct territory *territory = calloc(1, sizeof *territory);
  if (territory == NULL)
    return -ENOMEM;
  territory->sectors = sectors;
  int status = recency_new(most, &territory->pages);
  if (status != 0) {
    tk_territory_free(territory);
    return status;
  }
  *out = territory;
  return 0;
}

void tk_territory_free(struct territory *territory) {
  if (territory != NULL)
    recency_free(territory->pages);
  free(territory);
}

int territory_use(struct territory *territory, uint64_t sector, uint64_t sectors) {
  int status = 0;
  uint64_t last = page_of(sector + sectors - 1);
  for (uint64_t page = page_of(sector); status == 0 && page <= last; page++)
    status = recency_use(territory->pages, page);
  return status;
}

uint64_t territory_room(const struct territory *territory, uint64_t sector, uint64_t sectors) {
  uint64_t end = sector + sectors < territory->sectors ? sector + sectors : territory->sectors;
  for (uint64_t page = page_of(sector); page * TERRITORY_PAGE_SECTORS < end; page++)
    if (recency_has(territory->pages, page))
      end = page * TERRITORY_PAGE_SECTORS;
  return end > sector ? end - sector : 0;
}

int territory_is_free(const struct territory *territory, uint64_t sector, uint64_t sectors) {
  uint64_t left = territory->sectors > sector ? territory->sectors - sector : 0;
  return territory_room(territory, sector, sectors) == (sectors < left ? sectors : left);
}

int territory_is_used(const struct territory *territory, uint64_t sector, uint64_t sectors) {
  if (sector + sectors > territory->sectors)
    return 0;
  for (uint64_t page = page_of(sector); page <= page_of(sector + sectors - 1); page++)
    if (!recency_has(territory->pages, page))
      return 0;
  return 1;
}

int territory_is_back(const struct territory *territory, uint64_t sector,
                      const struct territory_span *span) {
  uint64_t back = recency_back(territory->pages, page_of(sector));
  return back > 0 && back >= span->from && back <= span->to;
}

/* Says whether a run that ends there could go on as wished. */
static int goes_on(const struct territory *territory, uint64_t end,
                   const struct territory_ahead *ahead) {
  if (ahead->sectors == 0)
    return 1;
  uint64_t behind = (page_of(end - 1) + 1) * TERRITORY_PAGE_SECTORS;
  if (ahead->is_used)
    return territory_is_back(territory, behind, &ahead->back) &&
           territory_is_used(territory, behind,
                             ahead->sectors < AHEAD_MOST ? ahead->sectors : AHEAD_MOST);
  return behind < territory->sectors && territory_is_free(territory, behind, ahead->sectors);
}

int tk_territory_see(struct territory *territory, const struct territory_run *runs, uint64_t count,
                     uint32_t *back) {
  for (uint64_t at = 0; at < count; at++) {
    uint64_t first = runs[at].first_sector;
    uint64_t sectors = runs[at].sectors;
    if (sectors == 0 || first > territory->sectors || sectors > territory->sectors - first)
      return -EINVAL;
    back[at] = (uint32_t)recency_back(territory->pages, page_of(first));
    int status = territory_use(territory, first, sectors);
    if (status != 0)
      return status;
  }
  return 0;
}

/* Returns where a request begins in a page: at its start, or if it is smaller than a page and may,
 * anywhere within it, or at its end if the run goes on with the next page. */
static uint64_t within_page(const struct territory_wish *wish, struct rng *rng) {
  if (wish->align_sectors >= TERRITORY_PAGE_SECTORS || wish->sectors >= TERRITORY_PAGE_SECTORS)
    return 0;
  if (wish->ahead.sectors > 0 && !wish->ahead.is_used)
    return TERRITORY_PAGE_SECTORS - wish->sectors;
  uint64_t choices = (TERRITORY_PAGE_SECTORS - wish->sectors) / wish->align_sectors + 1;
  return rng_below(rng, choices) * wish->align_sectors;
}

/* Returns the page that lies `step` steps around the one wished for: itself, one further back, one
 * less far, two further back and so on; TERRITORY_NOWHERE if there is none. */
static uint64_t page_near(const struct territory *territory, uint64_t back, uint64_t step) {
  uint64_t off = (step + 1) / 2;
  if (step % 2 == 0 && off >= back)
    return TERRITORY_NOWHERE;
  uint64_t found = step % 2 == 0 ? back - off : back + off;
  if (found > recency_count(territory->pages))
    return TERRITORY_NOWHERE;
  return recency_at(territory->pages, found - 1);
}

uint64_t territory_again(const struct territory *territory, const struct territory_wish *wish,
                         struct rng *rng) {
  uint64_t inside = within_page(wish, rng);
  uint64_t found = TERRITORY_NOWHERE;
  for (uint64_t step = 0; step < WISH_STEPS; step++) {
    uint64_t page = page_near(territory, wish->back, step);
    uint64_t sector = page * TERRITORY_PAGE_SECTORS + inside;
    if (page == TERRITORY_NOWHERE || sector % wish->align_sectors != 0 ||
        !territory_is_used(territory, sector, wish->sectors))
      continue;
    if (goes_on(territory, sector + wish->sectors, &wish->ahead))
      return sector;
    if (found == TERRITORY_NOWHERE)
      found = sector;
  }
  if (found != TERRITORY_NOWHERE)
    return found;
  uint64_t start = recency_at(territory->pages, wish->back - 1) * TERRITORY_PAGE_SECTORS;
  start -= start % wish->align_sectors;
  return start + wish->sectors <= territory->sectors ? start : 0;
}

uint64_t territory_gap(struct territory *territory, uint64_t sector, uint64_t sectors,
                       uint64_t align_sectors) {
  uint64_t step = align_sectors > TERRITORY_PAGE_SECTORS ? align_sectors : TERRITORY_PAGE_SECTORS;
  uint64_t last = territory->sectors - sectors;
  uint64_t at = sector;
  for (int left = GAP_STEPS >> territory->full; left > 0; left--) {
    if (territory_is_free(territory, at, sectors)) {
      territory->full = 0;
      return at;
    }
    at = at + step <= last ? at + step : 0;
  }
  if (territory->full < FULL_MOST)
    territory->full++;
  return sector;
}

uint64_t territory_count(const struct territory *territory) {
  return recency_count(territory->pages);
}

void territory_owe(struct territory *territory, uint64_t back) {
  territory->owed[territory->owed_to++ & (OWED - 1)] = back;
  if (territory->owed_to - territory->owed_from > OWED)
    territory->owed_from++;
}

uint64_t territory_due(struct territory *territory, uint64_t sectors) {
  if (territory->owed_from == territory->owed_to || territory->owed_sectors < (int64_t)sectors)
    return 0;
  uint64_t back = territory->owed[territory->owed_from & (OWED - 1)];
  if (back > recency_count(territory->pages))
    return 0;
  territory->owed_from++;
  return back;
}

void territory_balance(struct territory *territory, int64_t sectors) {
  territory->owed_sectors += sectors;
}
