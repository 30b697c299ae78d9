/* What stands behind the head of an event's line: action, RWBS letters and the rest, which is the
 * same in blkparse's text, in the blk tracer's and, with more numbers, in the block:* events. */
#ifndef TRACEKIT_READ_TEXT_BODY_H
#define TRACEKIT_READ_TEXT_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "read/record.h"

/* Numbers and words of the rest; those that are not there are zero. */
struct text_body {
  uint64_t sector;     /* 512 bytes */
  uint64_t other;      /* new sector of a split, or sector that a remap comes from */
  uint64_t bytes;      /* of a request, where they stand before its command */
  uint32_t sectors;    /* 512 bytes */
  uint32_t from;       /* device that a remap comes from */
  const char *word;    /* between brackets: a command's name or an error number; not ended */
  uint32_t word_bytes; /* its length */
  bool has_sector, has_sectors, has_other, has_from;
  bool has_command; /* "(...)" before the place: a SCSI command, empty in the block:* events */
  bool has_bytes;   /* a number before that */
};

/* Reads the action's letters at `*at` and sets record->action, or makes a message of the record.
 * Returns false for letters that are no action. The caller checks what follows. */
bool text_action(const char **at, struct record *record);

/* Reads RWBS letters, of blkparse or of the kernel, into record->category, to the first
 * other letter. Returns false when there is no operation. */
bool text_rwbs(const char **at, struct record *record);

/* Reads the rest, to the line's end. `end` is the place of its '\n'. */
bool text_body(const char *at, const char *end, struct text_body *out);

/* Fills what the body says into the record, of which the action and the category are known.
 * Returns false when something that the action needs is missing or a number is out of range. */
bool text_fill(const struct text_body *body, struct record *record);

/* The parts of that: the place, which may be out of range, and the name of the process, unless the
 * writer did not know it. */
bool text_place(const struct text_body *body, struct record *record);
void text_name(const struct text_body *body, struct record *record);

#endif
