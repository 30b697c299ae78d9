/* The pages of a part of the target that requests have used, in the order of their last use.
 *
 * Places are sectors from the start of the part. A page has 4 KiB: as caches of pages see it, a
 * request uses all pages that it touches, the lowest first. Used pages are those that are
 * remembered: the oldest are forgotten beyond a number. */
#ifndef TRACEKIT_WORKLOAD_TERRITORY_H
#define TRACEKIT_WORKLOAD_TERRITORY_H

#include <stdint.h>

#include "common/export.h"
#include "workload/rng.h"

#define TERRITORY_PAGE_SECTORS 8U
#define TERRITORY_NOWHERE UINT64_MAX

struct territory;

struct territory_run {
  uint64_t first_sector;
  uint64_t sectors;
};

/* Pages that are so far back by their last use. */
struct territory_span {
  uint64_t from;
  uint64_t to;
};

/* How a run goes on behind a request: by so many sectors, which are all on used pages or none. */
struct territory_ahead {
  uint64_t sectors;
  int is_used;
  struct territory_span back; /* of used pages, the first one */
};

/* What is wanted of a place that was used before. */
struct territory_wish {
  uint64_t back; /* how many pages back by their last use, at least 1 */
  uint64_t sectors;
  uint64_t align_sectors;
  struct territory_ahead ahead;
};

/* Makes a part of so many sectors; at most `most` pages are remembered, 1 to 2^26. Returns 0,
 * -EINVAL or -ENOMEM. */
TK_EXPORT int tk_territory_new(uint64_t sectors, uint64_t most, struct territory **out);

/* Says of requests in their order how many pages back the first page of each was used: 1: the last
 * used one, 0: never. Returns 0, -EINVAL for one that is empty or passes the end, or -ENOMEM. */
TK_EXPORT int tk_territory_see(struct territory *territory, const struct territory_run *runs,
                               uint64_t count, uint32_t *back);

/* Frees it; NULL is fine. */
TK_EXPORT void tk_territory_free(struct territory *territory);

/* Notes that a request used its pages. Returns 0 or -ENOMEM. */
int territory_use(struct territory *territory, uint64_t sector, uint64_t sectors);

/* Returns how many of so many sectors lie on pages that are not used, up to the first used page or
 * the end of the part. */
uint64_t territory_room(const struct territory *territory, uint64_t sector, uint64_t sectors);

/* Says whether no page of the sectors is used, as far as the part goes. */
int territory_is_free(const struct territory *territory, uint64_t sector, uint64_t sectors);

/* Says whether all of the pages are. */
int territory_is_used(const struct territory *territory, uint64_t sector, uint64_t sectors);

/* Says whether the page of the sector is used and lies so far back. */
int territory_is_back(const struct territory *territory, uint64_t sector,
                      const struct territory_span *span);

/* Returns how many pages are used. */
uint64_t territory_count(const struct territory *territory);

/* Returns a place on used pages as far back as wished, where at least so many pages are used: the
 * nearest that fits the wish, else one whose pages are all used, else the very one. */
uint64_t territory_again(const struct territory *territory, const struct territory_wish *wish,
                         struct rng *rng);

/* Returns the first place from `sector` on, a multiple of `align_sectors`, whose pages are not
 * used; `sector` itself if there is none near. It looks less far each time that there was none. */
uint64_t territory_gap(struct territory *territory, uint64_t sector, uint64_t sectors,
                       uint64_t align_sectors);

/* Notes that pages were to be used again of which one lies so far back that it is not used yet. */
void territory_owe(struct territory *territory, uint64_t back);

/* Returns how far back pages are that were owed and are used now, and takes them from what is owed,
 * if at least so many sectors are; else 0. */
uint64_t territory_due(struct territory *territory, uint64_t sectors);

/* Notes that so many sectors were used that are owed now (above 0), or given back. */
void territory_balance(struct territory *territory, int64_t sectors);

#endif
