#include "strace/cursor.h"

#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int digit_of(char c) {
  if (is_digit(c))
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  return 99;
}

bool cursor_number(struct cursor *cursor, int64_t *out) {
  const char *at = cursor->at;
  bool is_negative = at < cursor->end && *at == '-';
  at += is_negative;
  if (at == cursor->end || !is_digit(*at))
    return false;
  int base = 10;
  if (*at == '0' && at + 1 < cursor->end) {
    base = at[1] == 'x' ? 16 : is_digit(at[1]) ? 8 : 10;
    at += base == 16 ? 2 : 0;
  }

  /* Unsigned, so that an address or ~0 keeps its 64 bits. */
  uint64_t value = 0;
  for (; at < cursor->end && digit_of(*at) < base; at++)
    value = value * (uint64_t)base + (uint64_t)digit_of(*at);
  *out = (int64_t)(is_negative ? 0 - value : value);
  cursor->at = at;
  return true;
}

/* Returns what follows the quoted text whose opening quote is at `from`, or `end`. */
static const char *after_quotes(const char *from, const char *end) {
  for (const char *at = from + 1; at < end; at++) {
    if (*at == '\\')
      at++;
    else if (*at == '"')
      return at + 1;
  }
  return end;
}

static const char *after_path(const char *from, const char *end) {
  const char *close = memchr(from, '>', (size_t)(end - from));
  return close ? close + 1 : end;
}

bool cursor_described(struct cursor *cursor, struct described *out) {
  out->path = (struct view){NULL, 0};
  if (!cursor_number(cursor, &out->fd))
    return false;
  if (cursor->at < cursor->end && *cursor->at == '<') {
    const char *after = after_path(cursor->at, cursor->end);
    /* A line that was cut may have no end of the path. */
    if (after - cursor->at >= 2 && after[-1] == '>')
      out->path = (struct view){cursor->at + 1, (size_t)(after - cursor->at - 2)};
    cursor->at = after;
  }
  return true;
}

/* Returns the first character outside of quotes, paths and brackets that is a comma or closes a
 * bracket that was open before `from`; `end` when there is none. */
static const char *end_of_argument(const char *from, const char *end) {
  int depth = 0;
  for (const char *at = from; at < end;) {
    char c = *at;
    if (c == '"') {
      at = after_quotes(at, end);
      continue;
    }
    if (c == '<' && at > from && is_digit(at[-1])) {
      at = after_path(at, end);
      continue;
    }
    if (c == '{' || c == '[' || c == '(')
      depth++;
    else if ((c == '}' || c == ']' || c == ')') && depth-- == 0)
      return at;
    else if (c == ',' && depth == 0)
      return at;
    at++;
  }
  return end;
}

void cursor_skip(struct cursor *cursor) {
  const char *at = end_of_argument(cursor->at, cursor->end);
  while (at < cursor->end && (*at == ',' || *at == ' '))
    at++;
  cursor->at = at;
}

const char *closing_bracket(const char *from, const char *end) {
  for (const char *at = from;; at++) {
    at = end_of_argument(at, end);
    if (at == end)
      return NULL;
    /* What strace says of a closed descriptor has brackets of its own: `3</a>(deleted)`. */
    if (*at == ')')
      return at;
  }
}

bool cursor_find(struct cursor *cursor, const char *name) {
  size_t length = strlen(name);
  const char *found = memmem(cursor->at, (size_t)(cursor->end - cursor->at), name, length);
  if (!found)
    return false;
  cursor->at = found + length;
  return true;
}

/* Reads one escape, whose backslash is at `*at`. */
static char unescape_one(const char **at, const char *end) {
  static const char letters[] = "nrtfv";
  static const char values[] = "\n\r\t\f\v";
  const char *next = *at + 1;
  if (next == end) {
    *at = end;
    return '\\';
  }
  if (*next >= '0' && *next <= '7') {
    unsigned value = 0;
    for (int i = 0; i < 3 && next < end && *next >= '0' && *next <= '7'; i++)
      value = value * 8 + (unsigned)(*next++ - '0');
    *at = next;
    return (char)value;
  }
  *at = next + 1;
  const char *letter = strchr(letters, *next);
  return letter && *letter ? values[letter - letters] : *next;
}

int64_t view_unescape(struct view view, char *out, size_t capacity) {
  if (view.length == 0)
    return 0;
  const char *end = view.text + view.length;

  /* Most paths have no escapes and are copied at once. */
  if (!memchr(view.text, '\\', view.length)) {
    if (view.length > capacity)
      return -2;
    memcpy(out, view.text, view.length);
    return (int64_t)view.length;
  }
  size_t length = 0;
  for (const char *at = view.text; at < end;) {
    if (length == capacity)
      return -2;
    out[length++] = *at == '\\' ? unescape_one(&at, end) : *at++;
  }
  return (int64_t)length;
}

int64_t cursor_text(struct cursor *cursor, char *out, size_t capacity) {
  if (cursor->at == cursor->end || *cursor->at != '"')
    return -1;
  const char *after = after_quotes(cursor->at, cursor->end);
  if (after - cursor->at < 2 || after[-1] != '"')
    return -1;
  struct view inside = {cursor->at + 1, (size_t)(after - cursor->at - 2)};
  cursor->at = after;
  /* `"..."...`: strace prints paths whole, so a text that it cut is no path. */
  bool is_cut = cursor->end - after >= 3 && memcmp(after, "...", 3) == 0;
  return is_cut ? -1 : view_unescape(inside, out, capacity);
}
