#include "model/accesses.h"

#include <errno.h>
#include <stdbool.h>

#define SECTOR_BYTES 512
#define SECTOR_SHIFT 9u
#define SECTOR_MAX (INT64_C(1) << 57) /* additions of sectors cannot overflow below it */

static bool is_possible(int64_t sector, int64_t length_bytes) {
  return sector >= 0 && sector < SECTOR_MAX && length_bytes > 0 && length_bytes <= UINT32_MAX;
}

/* An index below zero is a large one. */
static bool is_known(const struct access_columns *columns, uint64_t row) {
  return (uint32_t)columns->device[row] < columns->devices &&
         (uint32_t)columns->operation[row] < columns->operations &&
         (uint32_t)columns->role[row] < columns->role_count;
}

int64_t tk_accesses_make(const struct access_columns *columns, uint64_t count,
                         struct page_access *out, uint64_t *impossible) {
  const uint32_t shift = columns->page_shift - SECTOR_SHIFT; /* of sectors */
  int64_t made = 0;
  /* A row of an unknown word ends it, one of an impossible place is counted and left out. */
  for (uint64_t row = 0; row < count; row++) {
    if (!is_known(columns, row))
      return -EINVAL;
    const uint8_t kind = columns->kinds[columns->operation[row]];
    const int64_t sector = columns->sector[row];
    const int64_t length_bytes = columns->length_bytes[row];
    if (kind >= ACCESS_NEITHER)
      continue;
    if (!is_possible(sector, length_bytes)) {
      ++*impossible;
      continue;
    }
    const int64_t first = sector >> shift;
    const int64_t last = (sector + (length_bytes - 1) / SECTOR_BYTES) >> shift;
    out[made++] = (struct page_access){
        .key = first + columns->first_keys[columns->device[row]],
        .count = (uint32_t)(last - first + 1),
        .is_write = kind,
        .role = columns->roles[columns->role[row]],
    };
  }
  return made;
}
