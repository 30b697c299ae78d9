/* What will not go as the plan says, known before the first request. */
#ifndef TRACEKIT_PLAY_PREFLIGHT_NOTE_H
#define TRACEKIT_PLAY_PREFLIGHT_NOTE_H

#include "play/block_plan.h"
#include "play/json.h"

#define PREFLIGHT_NO_CHECK "--no-space-check starts all the same"

/* Of the target, then of the run as a whole; those behind the groups' are of plans of files. */
enum preflight_code {
  PREFLIGHT_NO_SPACE,
  PREFLIGHT_NO_BACKING_SPACE,
  PREFLIGHT_NO_QUOTA,
  PREFLIGHT_FILE_SIZE_LIMIT,
  PREFLIGHT_SPACE_UNKNOWN,
  PREFLIGHT_READ_ONLY,
  PREFLIGHT_TOO_SMALL,
  PREFLIGHT_UNALIGNED,
  PREFLIGHT_UNALIGNED_RANGE,
  PREFLIGHT_NO_DISCARD,
  PREFLIGHT_NO_ZEROES,
  PREFLIGHT_NO_MAP_SYNC,
  PREFLIGHT_NO_ZONES,
  PREFLIGHT_ZONE_POINTER,
  PREFLIGHT_ZONE_CROSSING,
  PREFLIGHT_ZONE_LIMIT,
  PREFLIGHT_APPEND_AS_WRITE,
  PREFLIGHT_NO_RESULTS_SPACE,
  PREFLIGHT_RESULTS_SIZE_LIMIT,
  PREFLIGHT_OPEN_FILES_LIMIT,
  PREFLIGHT_LOCKED_MEMORY_LIMIT,
  PREFLIGHT_ADDRESS_SPACE_LIMIT,
  PREFLIGHT_DATA_LIMIT,
  PREFLIGHT_THREADS_LIMIT,
  PREFLIGHT_GROUP_THREADS_LIMIT,
  PREFLIGHT_GROUP_MEMORY_LIMIT,
  PREFLIGHT_GROUP_MEMORY_HIGH,
  PREFLIGHT_LONG_NAMES,
  PREFLIGHT_NO_DIRECT,
  PREFLIGHT_UNALIGNED_DIRECT,
  PREFLIGHT_NO_FALLOCATE,
};
#define PREFLIGHT_CODES 31U
#define PREFLIGHT_OF_RUN BLOCK_PLAN_TARGETS_MAX /* in the place of a target */
#define PREFLIGHT_TEXT_BYTES 900U               /* fits into a line of diag with its advice */

struct preflight_note {
  bool is_there;
  uint64_t needed;    /* bytes; of open files and threads their number; 0 with the next: it does not
                         count */
  uint64_t available; /* the same */
  uint64_t requests;  /* concerned; 0: not known, or all */
  uint64_t limit;     /* that `available` is left of; with `where` alone */
  const char *where;  /* what sets the limit: a file, or RLIMIT_*; borrowed; NULL: no limit */
};

struct preflight {
  struct preflight_note notes[BLOCK_PLAN_TARGETS_MAX + 1][PREFLIGHT_CODES];
};

/* Below, `notes` are the PREFLIGHT_CODES of a target or of a run. */

/* Adds a note with these numbers. */
void preflight_note_add(struct preflight_note *notes, enum preflight_code code,
                        const struct preflight_note *numbers);

/* Returns whether a run with such a note cannot succeed; `makes_files`: it makes them before all
 * that it needs is there, and so must know before. */
bool preflight_note_refuses(enum preflight_code code, bool makes_files);

/* Writes the note as a sentence with its numbers, and returns what to do about it. */
const char *preflight_note_text(enum preflight_code code, const struct preflight_note *note,
                                char text[PREFLIGHT_TEXT_BYTES]);

/* Writes them as the array `fit`. */
void preflight_note_write(struct json *json, const struct preflight_note *notes);

#endif
