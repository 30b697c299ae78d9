#include "read/columns.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/names.h"
#include "read/text_scan.h"
#include "read/text_values.h"

#define MOST_CHOICES 1024
#define KNOWN_BITS 8 /* of a place among the known words */

struct choice {
  const char *word;
  size_t length;
};

/* A short word that was read before, as it stands in the text. */
struct known_word {
  uint64_t letters; /* the first one lowest, zeros behind them */
  uint32_t length;  /* 0 where there is none */
  int32_t index;
};

struct words {
  struct names names;
  struct known_word known[1 << KNOWN_BITS]; /* by their letters, the latest of each place */
  int32_t last; /* index of the word of the row before, whose text is usually the same */
  uint32_t last_length;
  char last_text[32];
};

struct tk_columns {
  struct tk_column columns[TK_COLUMNS_MOST];
  struct words words[TK_COLUMNS_MOST];
  size_t count;
  char delimiter;
  bool has_more;
  size_t most;   /* with `has_more`, of columns in a line: less than two of the first one */
  bool is_blank; /* the delimiter is a blank: any number of them */
  char *choice_text;
  struct choice choices[MOST_CHOICES];
  size_t choice_count;
  size_t last_choice;
  const char *limit; /* end of the block that is read */
};

/* A value's place in its line. */
struct value {
  const char *begin, *end;
};

static int add_choices(struct tk_columns *reader, const char *choices) {
  reader->choice_text = strdup(choices);
  if (!reader->choice_text)
    return -ENOMEM;
  const char *word = reader->choice_text;
  for (const char *end; (end = strchr(word, '\n')) != NULL; word = end + 1) {
    if (reader->choice_count == MOST_CHOICES)
      return -EINVAL;
    reader->choices[reader->choice_count++] =
        (struct choice){.word = word, .length = (size_t)(end - word)};
  }
  return 0;
}

static bool is_known(const struct tk_column *column) {
  return column->kind >= 0 && column->kind < COLUMN_TEXT_END && column->digits >= 0 &&
         column->digits <= NUMBER_MOST_DIGITS && column->most >= 0;
}

int tk_columns_open(const struct tk_column *columns, int64_t count, int32_t delimiter,
                    int32_t has_more, const char *choices, struct tk_columns **out) {
  if (count <= 0 || count > TK_COLUMNS_MOST || delimiter <= 0 || delimiter > 127)
    return -EINVAL;
  struct tk_columns *reader = calloc(1, sizeof(*reader));
  if (!reader)
    return -ENOMEM;
  reader->count = (size_t)count;
  reader->delimiter = (char)delimiter;
  reader->is_blank = delimiter == ' ';
  reader->has_more = has_more != 0;
  int status = add_choices(reader, choices);
  for (size_t i = 0; i < reader->count; i++) {
    reader->columns[i] = columns[i];
    reader->words[i].last = -1;
    if (!is_known(&columns[i]))
      status = -EINVAL;
  }
  if (status) {
    tk_columns_close(reader);
    return status;
  }
  *out = reader;
  return 0;
}

void tk_columns_close(struct tk_columns *reader) {
  if (!reader)
    return;
  for (size_t i = 0; i < reader->count; i++)
    names_clear(&reader->words[i].names);
  free(reader->choice_text);
  free(reader);
}

int tk_columns_words(const struct tk_columns *reader, int64_t column, struct ArrowArray *out) {
  if (column < 0 || (size_t)column >= reader->count)
    return -EINVAL;
  return names_export(&reader->words[column].names, out);
}

int tk_columns_add_word(struct tk_columns *reader, int64_t column, const char *word,
                        int64_t length) {
  if (column < 0 || (size_t)column >= reader->count || length < 0 || length > UINT32_MAX)
    return -EINVAL;
  int32_t index = names_add(&reader->words[column].names, word, (uint32_t)length);
  return index < 0 ? index : 0;
}

static bool matches(const struct choice *choice, struct value value) {
  if ((size_t)(value.end - value.begin) != choice->length)
    return false;
  for (size_t i = 0; i < choice->length; i++)
    if (tolower((unsigned char)value.begin[i]) != (unsigned char)choice->word[i])
      return false;
  return true;
}

static bool find_choice(struct tk_columns *reader, struct value value, int64_t *out) {
  while (value.begin < value.end && is_blank(*value.begin))
    value.begin++;
  while (value.end > value.begin && is_blank(value.end[-1]))
    value.end--;
  if (reader->choice_count && matches(&reader->choices[reader->last_choice], value)) {
    *out = (int64_t)reader->last_choice;
    return true;
  }
  for (size_t i = 0; i < reader->choice_count; i++)
    if (matches(&reader->choices[i], value)) {
      *out = (int64_t)(reader->last_choice = i);
      return true;
    }
  return false;
}

/* Returns the word's index or -ENOMEM. */
static int32_t find_word(struct words *words, struct value value) {
  uint32_t length = (uint32_t)(value.end - value.begin);
  if (words->last >= 0 && length == words->last_length &&
      memcmp(words->last_text, value.begin, length) == 0)
    return words->last;
  int32_t index = names_add(&words->names, value.begin, length);
  words->last = -1;
  if (index >= 0 && length <= sizeof(words->last_text)) {
    words->last = index;
    words->last_length = length;
    memcpy(words->last_text, value.begin, length);
  }
  return index;
}

static bool has_digits_only(struct value value) {
  const char *at = skip_blanks(value.begin), *begin = at;
  while (at < value.end && is_digit(*at))
    at++;
  return at > begin && skip_blanks(at) >= value.end;
}

/* Passes over blanks that are no delimiters. */
static const char *skip(const struct tk_columns *reader, const char *at) {
  while (is_blank(*at) && (reader->is_blank || *at != reader->delimiter))
    at++;
  return at;
}

/* Finds the value at `*at`, to the delimiter or the line's end. */
static struct value next_value(const struct tk_columns *reader, const char **at, const char *end) {
  struct value value = {.begin = *at};
  if (reader->is_blank) {
    value.begin = skip_blanks(*at);
    for (*at = value.begin; *at < end && !is_blank(**at);)
      ++*at;
  } else {
    const char *found = memchr(*at, reader->delimiter, (size_t)(end - *at));
    *at = found ? found : end;
  }
  value.end = *at;
  return value;
}

/* Says whether digits and a blank stand behind the blanks here. */
static bool is_before_digits(const char *at) {
  at = skip_blanks(at);
  const char *begin = at;
  while (is_digit(*at))
    at++;
  return at > begin && is_blank(*at);
}

/* Finds the name at `*at`: between blanks, words up to a column of digits; the first if none is. */
static struct value next_name(const struct tk_columns *reader, const char **at, const char *end) {
  struct value name = next_value(reader, at, end), longer = name;
  const char *after = *at;
  if (!reader->is_blank)
    return name;
  while (longer.end < end && !is_before_digits(longer.end))
    longer.end = next_value(reader, &after, end).end;
  if (longer.end < end)
    *at = (name = longer).end;
  return name;
}

enum outcome { GOOD, WRONG, NO_MEMORY };

static enum outcome read_new_word(struct tk_columns *reader, size_t column, struct value value,
                                  int64_t *out) {
  int32_t kind = reader->columns[column].kind;
  if (kind == COLUMN_TEXT_CHOICE)
    return find_choice(reader, value, out) ? GOOD : WRONG;
  if (value.begin == value.end || (kind == COLUMN_TEXT_DIGITS && !has_digits_only(value)))
    return WRONG;
  if (memchr(value.begin, '\0', (size_t)(value.end - value.begin)))
    return WRONG; /* no text */
  int32_t index = find_word(&reader->words[column], value);
  *out = index;
  return index < 0 ? NO_MEMORY : GOOD;
}

/* Reads a word; what it is in this column was found out when it came first, if it is short. */
static enum outcome read_text(struct tk_columns *reader, size_t column, struct value value,
                              int64_t *out) {
  size_t length = (size_t)(value.end - value.begin);
  if (length == 0 || length > 8 || reader->limit - value.begin < 8)
    return read_new_word(reader, column, value, out);
  uint64_t letters;
  memcpy(&letters, value.begin, sizeof(letters));
  letters = le64toh(letters) & UINT64_MAX >> (64 - 8 * length);
  struct known_word *known = &reader->words[column].known[hash_mix(letters) >> (64 - KNOWN_BITS)];
  if (known->length == length && known->letters == letters) {
    *out = known->index;
    return GOOD;
  }
  enum outcome outcome = read_new_word(reader, column, value, out);
  if (outcome == GOOD)
    *known = (struct known_word){letters, (uint32_t)length, (int32_t)*out};
  return outcome;
}

/* Reads a number, in which `comma` may stand for the point. */
static bool read_number(const struct tk_columns *reader, const struct tk_column *column, char comma,
                        const char **at, int64_t *out) {
  *at = skip(reader, *at);
  bool is_good = true, has_point = false;
  if (column->kind == COLUMN_TEXT_MAYBE && !is_digit(**at))
    *out = -1;
  else if (column->kind == COLUMN_TEXT_INTEGER)
    is_good = number_integer(at, reader->limit, out);
  else if (column->kind == COLUMN_TEXT_DATE)
    is_good = date_read(at, out);
  else
    is_good = number_decimal(at, reader->limit, (unsigned)column->digits, comma, &has_point, out) &&
              (has_point || column->kind != COLUMN_TEXT_POINT);
  if (!reader->is_blank)
    *at = skip(reader, *at);
  return is_good && (!column->most || *out <= column->most);
}

/* Reads the column's value at `*at` into `out`, up to the delimiter behind it. */
static enum outcome read_column(struct tk_columns *reader, size_t column, const char **at,
                                const char *end, int64_t *out) {
  const struct tk_column *what = &reader->columns[column];
  switch (what->kind) {
  case COLUMN_TEXT_PASSED:
    (void)next_value(reader, at, end);
    return GOOD;
  case COLUMN_TEXT_CHOICE:
  case COLUMN_TEXT_DIGITS:
  case COLUMN_TEXT_WORD:
    return read_text(reader, column, next_value(reader, at, end), out);
  case COLUMN_TEXT_NAME:
    return read_text(reader, column, next_name(reader, at, end), out);
  default:
    return read_number(reader, what, reader->delimiter == ',' ? '.' : ',', at, out) ? GOOD : WRONG;
  }
}

/* Says whether the value at `*at` stands in quotes, and goes to the first of them. */
static bool begins_quoted(const struct tk_columns *reader, const char **at) {
  const char *begin = skip(reader, *at);
  if (*begin != '"')
    return false;
  *at = begin;
  return true;
}

/* Reads the column's value, which stands in quotes at `*at`, up to the delimiter behind it. */
static enum outcome read_quoted(struct tk_columns *reader, size_t column, const char **at,
                                const char *end, int64_t *out) {
  const struct tk_column *what = &reader->columns[column];
  const char *begin = *at + 1;
  const char *close = memchr(begin, '"', (size_t)(end - begin));
  enum outcome outcome = GOOD;
  if (!close)
    return WRONG;
  if (what->kind >= COLUMN_TEXT_CHOICE && what->kind != COLUMN_TEXT_DATE) {
    outcome = read_text(reader, column, (struct value){begin, close}, out);
  } else if (what->kind != COLUMN_TEXT_PASSED) {
    bool is_good = read_number(reader, what, ',', &begin, out);
    outcome = is_good && begin == close ? GOOD : WRONG;
  }
  *at = skip(reader, close + 1);
  return outcome;
}

/* Counts the columns that begin behind `at`, to the first one in quotes. */
static size_t count_more(const struct tk_columns *reader, const char *at, const char *end) {
  size_t count = 0;
  while (at < end && *at != '"') {
    next_value(reader, &at, end);
    count++;
    at += at < end;
  }
  return count;
}

/* Says whether a line has as many columns more as two lines have that lack the end between them. */
static bool is_two_lines(struct tk_columns *reader, const char *at, const char *end) {
  const size_t count = reader->count + count_more(reader, at, end);
  if (!reader->most)
    reader->most = 2 * count - 1;
  return reader->count > 2 && count >= reader->most;
}

/* Reads one line, without its ending. */
static enum outcome read_row(struct tk_columns *reader, const char *at, const char *end,
                             const struct tk_columns_block *block) {
  for (size_t i = 0; i < reader->count; i++) {
    if (i > 0) {
      if (reader->is_blank ? !is_blank(*at) : *at != reader->delimiter || at == end)
        return WRONG;
      at++;
    }
    int64_t unused, *out = block->values[i] ? &block->values[i][block->rows] : &unused;
    bool is_quoted = !reader->is_blank && begins_quoted(reader, &at);
    enum outcome outcome =
        is_quoted ? read_quoted(reader, i, &at, end, out) : read_column(reader, i, &at, end, out);
    if (outcome != GOOD)
      return outcome;
  }
  if (reader->is_blank)
    at = skip_blanks(at);
  bool has_more = at < end && (reader->is_blank || *at == reader->delimiter);
  bool is_ended = at >= end || (!reader->is_blank && has_more && skip(reader, at + 1) >= end);
  if (!reader->has_more || (is_ended && reader->most))
    return is_ended ? GOOD : WRONG;
  const char *more = is_ended ? end : at + (reader->is_blank ? 0 : 1);
  return (is_ended || has_more) && !is_two_lines(reader, more, end) ? GOOD : WRONG;
}

static void note_wrong(struct tk_columns_block *block, const char *line) {
  block->wrong[block->wrong_count] = line - block->text;
  block->wrong_lines[block->wrong_count] = block->lines;
  block->wrong_count++;
}

int tk_columns_read(struct tk_columns *reader, struct tk_columns_block *block) {
  block->wrong_count = block->lines = block->rows = block->used = 0;
  reader->limit = block->text + block->size;

  /* A wrong line is noted and passed; the block ends early when an array is full, or at a line
   * without an end. */
  while (block->used < block->size && block->rows < block->capacity &&
         block->wrong_count < block->wrong_capacity) {
    const char *line = block->text + block->used;
    const char *ending = memchr(line, '\n', (size_t)(block->size - block->used));
    if (!ending)
      break;
    const char *end = ending;
    while (end > line && end[-1] == '\r')
      end--;
    if (skip_blanks(line) < end) {
      enum outcome outcome = read_row(reader, line, end, block);
      if (outcome == NO_MEMORY)
        return -ENOMEM;
      if (outcome == GOOD)
        block->rows++;
      else
        note_wrong(block, line);
    }
    block->lines++;
    block->used = ending + 1 - block->text;
  }
  return 0;
}
