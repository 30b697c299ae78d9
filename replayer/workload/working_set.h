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
};

/* Pages that are so far back by their last use. */
struct working_set_span {
  uint64_t from;
  uint64_t to;
};

/* How a run goes on behind a request: by so many sectors, which are all on used pages or none. */
struct working_set_ahead {
  uint64_t sectors;
  int is_used;
  struct working_set_span back; /* of used pages, the first one */
};

/* What is wanted of a place that was used before. */
struct working_set_query {
  uint64_t back; /* how many pages back by their last use, at least 1 */
  uint64_t sectors;
  uint64_t most_sectors; /* of an earlier request */
  uint64_t align_sectors;
  struct working_set_ahead ahead;
};

/* Returns how many sectors it is from a place to where the next page begins; 0 there. */
static inline uint64_t working_set_rest(uint64_t sector) {
  return (WORKING_SET_PAGE_SECTORS - sector % WORKING_SET_PAGE_SECTORS) % WORKING_SET_PAGE_SECTORS;
}

/* Makes a part of so many sectors; at most `most` pages are remembered, 1 to 2^26. Returns 0,
 * -EINVAL or -ENOMEM. */
TK_EXPORT int tk_working_set_new(uint64_t sectors, uint64_t most, struct working_set **out);

/* Says of requests in their order how many pages back the first page that each begins was used (of
 * one that begins none, its only one): 1: the last used one, 0: never; and how many requests back
 * the same one was, 0: never, where those that began at one place count once. Returns 0, -EINVAL
 * for one that is empty or passes the end, or -ENOMEM. */
TK_EXPORT int tk_working_set_see(struct working_set *set, const struct working_set_run *runs,
                                 uint64_t count, uint32_t *back, uint32_t *again);

/* Frees it; NULL is fine. */
TK_EXPORT void tk_working_set_free(struct working_set *set);

/* Notes that a request used its pages. Returns 0 or -ENOMEM. */
int working_set_use(struct working_set *set, uint64_t sector, uint64_t sectors);

/* Returns how many of so many sectors lie on pages that are not used, up to the first used page or
 * the end of the part. */
uint64_t working_set_free_sectors(const struct working_set *set, uint64_t sector, uint64_t sectors);

/* Says whether no page of the sectors is used, as far as the part goes. */
int working_set_is_free(const struct working_set *set, uint64_t sector, uint64_t sectors);

/* The same of what goes on behind others, which may have used the first page in part. */
int working_set_is_free_behind(const struct working_set *set, uint64_t sector, uint64_t sectors);

/* Says whether all of the pages are. */
int working_set_is_used(const struct working_set *set, uint64_t sector, uint64_t sectors);

/* Says whether the first page that these sectors begin is used and lies so far back. */
int working_set_is_back(const struct working_set *set, uint64_t sector, uint64_t sectors,
                        const struct working_set_span *span);

/* Returns how many pages are used. */
uint64_t working_set_count(const struct working_set *set);

/* Returns an earlier request of about this length, as far back as asked or nearly: one that goes on
 * as asked if there is one. Of the last few any length will do that is not above the most, and
 * where none is alike; requests of one page are none of several. Its sectors are 0 where there is
 * none, or none so far back. */
struct working_set_run working_set_find_again(const struct working_set *set,
                                              const struct working_set_query *query);

/* Returns a place on used pages as far back as asked, where at least so many pages are used: the
 * nearest that fits the query, else one whose pages are all used, else the very one. */
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
