/* The pages of a part of the target that requests have used, in the order of their last use.
 *
 * Places are sectors from the start of the part. A page has 4 KiB: as caches of pages see it, a
 * request uses all pages that it touches, the lowest first. Used pages are those that are
 * remembered: the oldest are forgotten beyond a number. */
#ifndef TRACEKIT_WORKLOAD_WORKING_SET_H
#define TRACEKIT_WORKLOAD_WORKING_SET_H

#include <stdint.h>

#include "common/export.h"
#include "workload/rng.h"

#define WORKING_SET_PAGE_SECTORS 8U
#define WORKING_SET_NOWHERE UINT64_MAX

struct working_set;

struct working_set_run {
  uint64_t first_sector;
  uint64_t sectors;
  uint64_t is_write;
};

struct working_set_span { /* how far back by their last use */
  uint64_t from;
  uint64_t to;
};

/* How a run goes on behind a request: by so many sectors, which are all on used pages or none. */
struct working_set_ahead {
  uint64_t sectors;
  int is_used;
  struct working_set_span back; /* of used pages, the first one */
};

struct working_set_query { /* what is wanted of a place that was used before */
  uint64_t back;           /* how many pages back by their last use, at least 1 */
  uint64_t sectors;
  uint64_t most_sectors; /* of an earlier request */
  uint64_t align_sectors;
  int is_write;
  const double *uses; /* use_search_begin; NULL: the nearest, however often it was used */
  struct working_set_ahead ahead;
};

/* Returns how many sectors it is from a place to where the next page begins; 0 there. */
static inline uint64_t working_set_rest(uint64_t sector) {
  return (WORKING_SET_PAGE_SECTORS - sector % WORKING_SET_PAGE_SECTORS) % WORKING_SET_PAGE_SECTORS;
}

/* What a request finds. Of the requests of one operation that began at one place the last counts.
 */
struct working_set_seen {
  uint32_t back;    /* pages to the first that it begins, or its only one; 1: the last, 0: new */
  uint32_t uses;    /* of that page by the same operation */
  uint32_t again;   /* requests to the same one; 0: none */
  uint32_t repeats; /* how often in a row there was that one */
};

/* Makes a part of so many sectors; at most `most` pages are remembered, 1 to 2^26. Returns 0,
 * -EINVAL or -ENOMEM. */
TK_EXPORT int tk_working_set_new(uint64_t sectors, uint64_t most, struct working_set **out);

/* Says what requests find, in order. Returns 0, -EINVAL for one outside the part, or -ENOMEM. */
TK_EXPORT int tk_working_set_see(struct working_set *set, const struct working_set_run *runs,
                                 uint64_t count, struct working_set_seen *seen);

TK_EXPORT void tk_working_set_free(struct working_set *set);

/* Keeps pages by how often they were used from now on, before any was. Returns 0 or -ENOMEM. */
int working_set_keep_uses(struct working_set *set);

/* Notes that a request used its pages. Returns 0 or -ENOMEM. */
int working_set_use(struct working_set *set, const struct working_set_run *run);

/* Returns how many of so many sectors lie before the first used page and the end of the part. */
uint64_t working_set_free_sectors(const struct working_set *set, uint64_t sector, uint64_t sectors);

/* Says whether no page is used, but the first one in part by what they go on behind. */
int working_set_is_free_behind(const struct working_set *set, uint64_t sector, uint64_t sectors);

/* Says whether all of the pages are. */
int working_set_is_used(const struct working_set *set, uint64_t sector, uint64_t sectors);

/* Says whether the first page that these sectors begin is used and lies so far back. */
int working_set_is_back(const struct working_set *set, uint64_t sector, uint64_t sectors,
                        const struct working_set_span *span);

uint64_t working_set_count(const struct working_set *set);

/* Returns an earlier request of about this length, as far back as asked or nearly: one that goes on
 * as asked if there is one. Of the last few any length will do that is not above the most, and
 * where none is alike; requests of one page are none of several. Its sectors are 0 where there is
 * none, or none so far back. */
struct working_set_run working_set_find_again(const struct working_set *set,
                                              const struct working_set_query *query,
                                              struct rng *rng);

/* Returns a place on used pages as far back as asked, at most as many as are used: the nearest that
 * fits the query, else one whose pages are all used, else the very one. */
uint64_t working_set_find_used(const struct working_set *set, const struct working_set_query *query,
                               struct rng *rng);

/* Returns the first place from `sector` on, a multiple of `align_sectors`, whose pages are not
 * used; `sector` itself if there is none near. It looks less far each time that there was none. */
uint64_t working_set_gap(struct working_set *set, uint64_t sector, uint64_t sectors,
                         uint64_t align_sectors);

/* Notes that pages were to be used again of which one lies so far back that it is not used yet. */
void working_set_owe(struct working_set *set, uint64_t back);

/* Returns how far back pages are that were owed and are used now, and takes them from what is owed,
 * if at least so many sectors are; else 0. */
uint64_t working_set_due(struct working_set *set, uint64_t sectors);

/* Notes that so many sectors were used that are owed now (above 0), or given back. */
void working_set_balance(struct working_set *set, int64_t sectors);

#endif
