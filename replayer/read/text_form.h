/* A format that the user gave to `blkparse -f`, as a list of fields and of what stands between. */
#ifndef TRACEKIT_READ_TEXT_FORM_H
#define TRACEKIT_READ_TEXT_FORM_H

#include <stdbool.h>
#include <stdint.h>

#include "read/record.h"

#define FORM_ITEMS 64

struct form_item {
  char letter;   /* of the field; 0 for text between fields */
  bool is_blank; /* that text is any number of blanks */
  char literal;  /* else this one character */
};

/* Embedded by its owner; all zero matches nothing. */
struct text_form {
  struct form_item items[FORM_ITEMS];
  uint32_t count;
};

/* Reads the format `pattern`, with or without its "\n" at the end. Returns 0, -EINVAL for a field
 * that blkparse does not know or a pattern that is too long, -ENODATA when it lacks a time, an
 * action, RWBS, a place or a length. */
int text_form_open(struct text_form *form, const char *pattern);

/* Reads the line [line, end) into `out`. Returns false when it is not of the format. */
bool text_form_line(const struct text_form *form, const char *line, const char *end,
                    struct record *out);

#endif
