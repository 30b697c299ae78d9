/* Finding a place in a plan by its index, and reading all of it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "play/block_plan.h"
#include "play/diag.h"
#include "play/transfer.h"

/* Reads and checks the block that `position` lies in; the caller frees *records. */
static int read_around(const struct block_plan *plan, uint64_t position,
                       struct block_record **records, uint32_t *count) {
  uint64_t last_ns = 0;
  *records = malloc(BLOCK_PLAN_STRIDE * sizeof **records);
  if (*records != NULL)
    return block_plan_read_block(plan, position / BLOCK_PLAN_STRIDE, *records, count, &last_ns);
  diag("no memory to read %s", plan->path);
  return -ENOMEM;
}

/* Sets *found to the number of blocks that begin before `from_ns`. */
static int blocks_before(const struct block_plan *plan, uint64_t from_ns, uint64_t *found) {
  uint64_t low = 0;
  uint64_t high = block_plan_blocks(plan);
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    uint64_t first_ns;
    int rc = block_plan_block_time(plan, middle, &first_ns);
    if (rc != 0)
      return rc;
    if (first_ns < from_ns)
      low = middle + 1;
    else
      high = middle;
  }
  *found = low;
  return 0;
}

int block_plan_seek(const struct block_plan *plan, uint64_t from_ns, uint64_t *position) {
  uint64_t blocks;
  *position = 0;
  int rc = blocks_before(plan, from_ns, &blocks);
  if (rc != 0 || blocks == 0)
    return rc;
  struct block_record *records;
  uint32_t count = 0;
  uint64_t first = (blocks - 1) * BLOCK_PLAN_STRIDE;
  rc = read_around(plan, first, &records, &count);
  uint32_t at = 0;
  while (rc == 0 && at < count && records[at].intended_ns < from_ns)
    at++;
  free(records);
  *position = first + at;
  return rc;
}

int block_plan_time_of(const struct block_plan *plan, uint64_t position, uint64_t *intended_ns) {
  struct block_record *records;
  uint32_t count = 0;
  int rc = read_around(plan, position, &records, &count);
  if (rc == 0)
    *intended_ns = records[position % BLOCK_PLAN_STRIDE].intended_ns;
  free(records);
  return rc;
}

static void add_block(struct block_target *sums, uint64_t *ends, const struct block_record *records,
                      uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const struct block_record *record = &records[i];
    struct block_target *sum = &sums[record->target];
    uint64_t length = block_operation_is_zone(record->operation) ? 1 : record->length_sectors;
    uint64_t end = record->sector + length;
    sum->counts[record->operation]++;
    sum->bytes[record->operation] += (uint64_t)record->length_sectors * SECTOR_BYTES;
    if (record->operation == BLOCK_FLUSH)
      continue;
    sum->address_bits |= record->sector | record->length_sectors;
    ends[record->target] = end > ends[record->target] ? end : ends[record->target];
  }
}

/* The target's table is what longer plans are judged by, so it must be true. */
static const char *wrong_sums(const struct block_plan *plan, const struct block_target *sums,
                              const uint64_t *ends) {
  for (uint32_t i = 0; i < plan->target_count; i++) {
    const struct block_target *planned = &plan->targets[i];
    if (memcmp(planned->counts, sums[i].counts, sizeof planned->counts) != 0 ||
        memcmp(planned->bytes, sums[i].bytes, sizeof planned->bytes) != 0 ||
        planned->address_bits != sums[i].address_bits)
      return "has requests that do not add up to its table of targets";
    if (ends[i] * SECTOR_BYTES > planned->needed_bytes)
      return "has requests beyond the size that it says a target needs";
  }
  return NULL;
}

/* The sums of the targets decide what is safe to write, so they must be those of the records. */
static int read_all(const struct block_plan *plan, struct block_target *sums, uint64_t *ends,
                    struct block_record *records) {
  uint64_t last_ns = 0;
  int rc = 0;
  for (uint64_t block = 0; block < block_plan_blocks(plan) && rc == 0; block++) {
    uint32_t count;
    rc = block_plan_read_block(plan, block, records, &count, &last_ns);
    if (rc == 0)
      add_block(sums, ends, records, count);
  }
  if (rc != 0)
    return rc;
  const char *wrong = last_ns != plan->duration_ns ? "ends at another time than its header says"
                                                   : wrong_sums(plan, sums, ends);
  if (wrong == NULL)
    return 0;
  diag("%s %s", plan->path, wrong);
  return -EINVAL;
}

int block_plan_check_all(const struct block_plan *plan) {
  struct block_target *sums = calloc(plan->target_count, sizeof *sums);
  uint64_t *ends = calloc(plan->target_count, sizeof *ends);
  struct block_record *records = malloc(BLOCK_PLAN_STRIDE * sizeof *records);
  int rc = -ENOMEM;
  if (sums != NULL && ends != NULL && records != NULL)
    rc = read_all(plan, sums, ends, records);
  else
    diag("no memory to check %s", plan->path);
  free(sums);
  free(ends);
  free(records);
  return rc;
}
