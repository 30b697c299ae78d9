/* Texts of one request a line whose values a delimiter separates: blocks of whole lines in, numbers
 * out, column by column. A wrong line is left out and named; nothing else is lost by it. A value
 * may stand in double quotes, unless the delimiter is a blank. One more delimiter may end a line.
 *
 * A reader is used by one thread at a time. */
#ifndef TRACEKIT_READ_COLUMNS_H
#define TRACEKIT_READ_COLUMNS_H

#include <stdint.h>

#include "common/arrow.h"
#include "common/export.h"

#define TK_COLUMNS_MOST 64

enum tk_column_kind {
  COLUMN_TEXT_PASSED,  /* anything, not read */
  COLUMN_TEXT_INTEGER, /* 1 to 19 digits below 2^63, or 0x and hexadecimal ones */
  COLUMN_TEXT_DECIMAL, /* such digits, perhaps a point and more, perhaps e and an exponent;
                          a comma for the point where it is no delimiter, or in quotes */
  COLUMN_TEXT_POINT,   /* a decimal that has a point or an exponent */
  COLUMN_TEXT_MAYBE,   /* a decimal, or nothing, which is -1 */
  COLUMN_TEXT_CHOICE,  /* one of the reader's choices in any case; its index */
  COLUMN_TEXT_DIGITS,  /* digits, as a word */
  COLUMN_TEXT_WORD,    /* any character or more but NUL; the index among the column's words */
  COLUMN_TEXT_NAME,    /* a word; between blanks it may hold some, before a column of digits */
  COLUMN_TEXT_DATE,    /* as date_read has it; ns since 1970 */
  COLUMN_TEXT_END,
};

struct tk_column {
  int32_t kind;   /* enum tk_column_kind */
  int32_t digits; /* of a decimal: how many behind the point count, 0 to 9; others are cut off */
  int64_t most;   /* larger numbers, in units of the last digit, are wrong; 0: there is no limit */
};

/* One block on its way; the arrays are the caller's. */
struct tk_columns_block {
  const char *text;       /* whole lines, each with its '\n' */
  int64_t size;           /* bytes */
  int64_t *const *values; /* for each column an array of `capacity` numbers; NULL of those passed */
  int64_t capacity;       /* rows; a block of more lines is read up to there */
  int64_t *wrong;         /* out: where in `text` each wrong line begins */
  int64_t *wrong_lines;   /* out: its number in the block, from 0 */
  int64_t wrong_capacity;
  int64_t wrong_count; /* out */
  int64_t lines;       /* out: lines read, empty ones too */
  int64_t rows;        /* out */
  int64_t used;        /* out: bytes read; less than `size` when an array is full */
};

struct tk_columns;

/* Makes a reader of `count` columns. `choices` are words in lower case, each ended by '\n'. With
 * `has_more` a line may have more columns, but not as many as two lines like the first that are
 * joined. Returns 0, -EINVAL, -ENOMEM. */
TK_EXPORT int tk_columns_open(const struct tk_column *columns, int64_t count, int32_t delimiter,
                              int32_t has_more, const char *choices, struct tk_columns **out);

/* Reads the block. Returns 0 or -ENOMEM. */
TK_EXPORT int tk_columns_read(struct tk_columns *reader, struct tk_columns_block *block);

/* Writes the words of a column seen so far as an Arrow array. Returns 0, -EINVAL, -ENOMEM. */
TK_EXPORT int tk_columns_words(const struct tk_columns *reader, int64_t column,
                               struct ArrowArray *out);

/* Adds the next word of a column that another reader has seen. Returns 0, -EINVAL, -ENOMEM, -E2BIG.
 */
TK_EXPORT int tk_columns_add_word(struct tk_columns *reader, int64_t column, const char *word,
                                  int64_t length);

/* Frees the reader; NULL is fine. */
TK_EXPORT void tk_columns_close(struct tk_columns *reader);

#endif
