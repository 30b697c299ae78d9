/* Lists of pages in the order in which they came, for the cache policies. A page is in one list at
 * most; all lists of a cache share one table of neighbours. Every operation takes constant time. */
#ifndef TRACEKIT_SIMULATE_PAGE_LIST_H
#define TRACEKIT_SIMULATE_PAGE_LIST_H

#include <stdint.h>

#define PAGE_NONE UINT32_MAX

/* A page's neighbours in its list; PAGE_NONE at the ends. */
struct page_links {
  uint32_t newer;
  uint32_t older;
};

struct page_list {
  uint32_t newest; /* page, or PAGE_NONE when empty */
  uint32_t oldest;
  uint32_t count; /* pages */
};

#define PAGE_LIST_EMPTY ((struct page_list){PAGE_NONE, PAGE_NONE, 0})

/* Makes a page that is in no list the newest of `list`. */
static inline void page_list_push(struct page_list *list, struct page_links *links, uint32_t page) {
  links[page] = (struct page_links){.newer = PAGE_NONE, .older = list->newest};
  if (list->newest == PAGE_NONE)
    list->oldest = page;
  else
    links[list->newest].newer = page;
  list->newest = page;
  list->count++;
}

/* Takes a page out of `list`, which it is in. */
static inline void page_list_remove(struct page_list *list, struct page_links *links,
                                    uint32_t page) {
  const struct page_links at = links[page];
  if (at.newer == PAGE_NONE)
    list->newest = at.older;
  else
    links[at.newer].older = at.older;
  if (at.older == PAGE_NONE)
    list->oldest = at.newer;
  else
    links[at.older].newer = at.newer;
  list->count--;
}

/* Takes the oldest page out of `list`, which is not empty, and returns it. */
static inline uint32_t page_list_pop(struct page_list *list, struct page_links *links) {
  const uint32_t page = list->oldest;
  page_list_remove(list, links, page);
  /* The page after the next to leave is only known once the next one's links are read: by the time
   * that it leaves they have come. */
  if (list->oldest != PAGE_NONE && links[list->oldest].newer != PAGE_NONE)
    __builtin_prefetch(&links[links[list->oldest].newer], 1);
  return page;
}

#endif
