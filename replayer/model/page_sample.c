#include "model/page_sample.h"

uint64_t tk_page_sample(const struct page_access *rows, uint64_t count, uint32_t low, uint32_t high,
                        struct page_access *out, uint64_t capacity, uint64_t *done) {
  uint64_t made = 0;
  uint64_t row = 0;
  for (; row < count && rows[row].count <= capacity - made; row++) {
    struct page_access page = rows[row];
    page.count = 1;
    for (uint32_t left = rows[row].count; left > 0; left--, page.key++) {
      const uint64_t hash = hash_mix((uint64_t)page.key + PAGE_SAMPLE_SALT) >> PAGE_SAMPLE_SHIFT;
      /* Written in any case, and overwritten if the page is not sampled. */
      out[made] = page;
      made += hash >= low && hash < high;
    }
  }
  *done = row;
  return made;
}
