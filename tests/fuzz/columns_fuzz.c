/* libFuzzer harness of the reader of columns: the first byte of an input chooses the columns and
 * the delimiter, the rest is a block of lines. See README.md. */
#include <string.h>

#include "input.h"
#include "read/columns.h"

#define COLUMNS 5

static const struct tk_column shapes[][COLUMNS] = {
    {{COLUMN_TEXT_INTEGER, 0, 1000},
     {COLUMN_TEXT_DECIMAL, 9, 0},
     {COLUMN_TEXT_CHOICE, 0, 0},
     {COLUMN_TEXT_WORD, 0, 0},
     {COLUMN_TEXT_MAYBE, 6, INT64_MAX / 4}},
    {{COLUMN_TEXT_POINT, 3, 0},
     {COLUMN_TEXT_DIGITS, 0, 0},
     {COLUMN_TEXT_PASSED, 0, 0},
     {COLUMN_TEXT_WORD, 0, 0},
     {COLUMN_TEXT_INTEGER, 0, 0}},
    {{COLUMN_TEXT_DATE, 0, INT64_MAX / 2},
     {COLUMN_TEXT_NAME, 0, 0},
     {COLUMN_TEXT_INTEGER, 0, 0},
     {COLUMN_TEXT_WORD, 0, 0},
     {COLUMN_TEXT_DATE, 0, 0}},
};
#define DATES 16 /* option: the last shape */
static const char delimiters[] = {',', ' ', '\t', ';'};

/* All values are there, and what was left out is named. */
static void check(const struct tk_columns_block *block) {
  if (block->used != block->size || block->rows + block->wrong_count > block->lines)
    abort();
  for (int64_t i = 0; i < block->wrong_count; i++)
    if (block->wrong[i] < 0 || block->wrong[i] >= block->size ||
        block->wrong_lines[i] >= block->lines)
      abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  uint8_t options = *data;
  char *text = malloc(size);
  int64_t *numbers = calloc((COLUMNS + 2) * size, sizeof(*numbers));
  if (!text || !numbers)
    abort();
  memcpy(text, data + 1, size - 1);
  text[size - 1] = '\n';

  /* One column without an array: its values are read and not kept. */
  int64_t *values[COLUMNS];
  for (size_t i = 0; i < COLUMNS; i++)
    values[i] = i == 2 && (options & 1) ? NULL : numbers + i * size;
  struct tk_columns *reader;
  size_t shape = options & DATES ? 2 : options & 1;
  if (tk_columns_open(shapes[shape], COLUMNS, delimiters[options >> 1 & 3], options >> 3 & 1,
                      "read\nwrite\n\n", &reader))
    abort();

  /* Every array has a place for each byte of the text, so that none can be too small. */
  struct tk_columns_block block = {.text = text,
                                   .size = (int64_t)size,
                                   .values = values,
                                   .capacity = (int64_t)size,
                                   .wrong = numbers + COLUMNS * size,
                                   .wrong_lines = numbers + (COLUMNS + 1) * size,
                                   .wrong_capacity = (int64_t)size};
  if (tk_columns_read(reader, &block))
    abort();
  check(&block);

  for (int64_t i = 0; i < COLUMNS; i++) {
    struct ArrowArray words;
    if (tk_columns_words(reader, i, &words))
      abort();
    words.release(&words);
  }
  tk_columns_close(reader);
  free(numbers);
  free(text);
  return 0;
}
