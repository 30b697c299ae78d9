#include "play/results.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "play/diag.h"
#include "play/record_file.h"

#define MAGIC "TKFDON\r\n"

_Static_assert(sizeof(struct results_record) == 48, "a record has 48 bytes");

struct results {
  struct record_file file;
  _Atomic uint64_t claimed; /* records that have a place in the file */
  _Atomic int error;
};

int results_open(struct results **out, const char *path) {
  struct results *results = calloc(1, sizeof *results);
  if (results == NULL)
    return -ENOMEM;
  int rc = record_file_open(&results->file, path, MAGIC, sizeof(struct results_record));
  if (rc != 0) {
    diag("cannot write results to %s: %s", path, strerror(-rc));
    results_close(results);
    return rc;
  }
  *out = results;
  return 0;
}

void results_flush(struct results *results, struct results_block *block) {
  uint32_t count = block->count;
  block->count = 0;
  if (results->file.fd < 0 || count == 0 || results_error(results) != 0)
    return;
  uint64_t place = atomic_fetch_add_explicit(&results->claimed, count, memory_order_relaxed);
  int rc = record_file_write(&results->file, place, block->records, count);
  int none = 0;
  if (rc != 0)
    (void)atomic_compare_exchange_strong(&results->error, &none, rc); /* the first one stays */
}

void results_add(struct results *results, struct results_block *block,
                 const struct results_record *record) {
  if (results->file.fd < 0)
    return;
  struct results_record *place = &block->records[block->count++];
  *place = *record;
  if (place->is_whole == RESULTS_CUT)
    place->is_whole = RESULTS_WHOLE;
  if (block->count == RESULTS_BLOCK)
    results_flush(results, block);
  else
    results_hand_over(results, block, record->end_ns);
}

void results_hand_over(struct results *results, struct results_block *block, uint64_t now_ns) {
  if (block->count == 0 || now_ns - block->written_ns < RESULTS_AGE_NS)
    return;
  block->written_ns = now_ns;
  results_flush(results, block);
}

int results_error(const struct results *results) {
  return atomic_load_explicit(&results->error, memory_order_relaxed);
}

int results_finish(struct results *results) {
  uint64_t count = atomic_load(&results->claimed);
  return record_file_finish(&results->file, count, results_error(results), "results");
}

void results_close(struct results *results) {
  if (results == NULL)
    return;
  record_file_close(&results->file);
  free(results);
}
