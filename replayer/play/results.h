/* The results file: one record an operation, written by the threads themselves in blocks, between
 * two operations. INTERFACE.md gives it byte by byte. */
#ifndef TRACEKIT_PLAY_RESULTS_H
#define TRACEKIT_PLAY_RESULTS_H

#include <stdint.h>

#define RESULTS_BLOCK 1024U      /* records that a thread keeps before it writes them ... */
#define RESULTS_AGE_NS 50000000U /* ... and how long it keeps them */

/* A record that a kill cut off ends with zeroes. */
enum results_whole {
  RESULTS_CUT,
  RESULTS_WHOLE,
  RESULTS_UNKNOWN /* under way when the end was forced: it may have happened or not */
};

struct results_record {
  uint64_t operation_id;
  uint64_t start_ns; /* from the start of the run */
  uint64_t end_ns;
  int64_t result;  /* 0 or more, or -errno */
  uint32_t thread; /* of the plan */
  uint32_t cycle;  /* of a repeated plan, from 0 */
  uint8_t operation;
  uint8_t step;
  uint8_t is_timed;
  uint8_t is_expected;
  uint32_t is_whole; /* enum results_whole */
};

/* What one thread has not yet written. */
struct results_block {
  uint64_t written_ns; /* from the start of the run: when records last left it */
  uint32_t count;
  struct results_record records[RESULTS_BLOCK];
};

struct results;

/* Opens the file that will be `path`; NULL: records are thrown away. Returns 0 or -errno after a
 * line on stderr. */
int results_open(struct results **out, const char *path);

/* Adds a record, whole unless it says that it is unknown, and writes the block when it is full or
 * old. Any thread with a block of its own.
 */
void results_add(struct results *results, struct results_block *block,
                 const struct results_record *record);

/* Writes a block that is old at `now_ns` from the start of the run: for a thread that waits, so
 * that a kill loses little. Any thread with a block of its own. */
void results_hand_over(struct results *results, struct results_block *block, uint64_t now_ns);

/* Writes what is left in a block. Any thread. */
void results_flush(struct results *results, struct results_block *block);

/* Returns the first error of any thread, 0 or -errno. Any thread. */
int results_error(const struct results *results);

/* Completes the header and gives the file its name, after all threads have ended. Returns 0 or
 * -errno after a line on stderr; what was written then stays beside. */
int results_finish(struct results *results);

/* Frees, and removes a file that was not finished; NULL is fine. */
void results_close(struct results *results);

#endif
