/* What will not go as the plan says, known before the first request. */
#ifndef TRACEKIT_PLAY_PREFLIGHT_NOTE_H
#define TRACEKIT_PLAY_PREFLIGHT_NOTE_H

#include "play/block_plan.h"
#include "play/json.h"

/* Of the target, then of the run as a whole. */
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
  PREFLIGHT_APPEND_AS_WRITE,
  PREFLIGHT_NO_RESULTS_SPACE,
  PREFLIGHT_RESULTS_SIZE_LIMIT,
  PREFLIGHT_OPEN_FILES_LIMIT,
  PREFLIGHT_LOCKED_MEMORY_LIMIT,
  PREFLIGHT_ADDRESS_SPACE_LIMIT,
  PREFLIGHT_DATA_LIMIT,
  PREFLIGHT_THREADS_LIMIT,
};
#define PREFLIGHT_CODES 23U
#define PREFLIGHT_OF_RUN BLOCK_PLAN_TARGETS_MAX /* in the place of a target */
#define PREFLIGHT_TEXT_BYTES 512U

struct preflight_note {
  bool is_there;
  uint64_t needed;    /* bytes; of open files and threads their number; 0 with the next: it does not
                         count */
  uint64_t available; /* the same */
  uint64_t requests;  /* concerned; 0: not known, or all */
};

struct preflight {
  struct preflight_note notes[BLOCK_PLAN_TARGETS_MAX + 1][PREFLIGHT_CODES];
};

/* Adds a note with these numbers about a target, or PREFLIGHT_OF_RUN. */
void preflight_note_add(struct preflight *preflight, uint32_t place, enum preflight_code code,
                        const struct preflight_note *numbers);

/* Returns whether a run with such a note cannot succeed. */
bool preflight_note_refuses(enum preflight_code code);

/* Writes the note as a sentence with its numbers, and returns what to do about it. */
const char *preflight_note_text(enum preflight_code code, const struct preflight_note *note,
                                char text[PREFLIGHT_TEXT_BYTES]);

/* Writes the notes of a target, or of PREFLIGHT_OF_RUN, as the array `fit`. */
void preflight_note_write(struct json *json, const struct preflight *preflight, uint32_t place);

#endif
