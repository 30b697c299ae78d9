/* Reads the arguments of one system call as strace prints them with `-X raw -y`. */
#ifndef TRACEKIT_STRACE_CURSOR_H
#define TRACEKIT_STRACE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of text that somebody else owns. */
struct view {
  const char *text;
  size_t length;
};

struct cursor {
  const char *at, *end;
};

/* A descriptor with the path that strace found behind it: `3</path>`, `3</path>(deleted)`. */
struct described {
  int64_t fd;
  struct view path; /* escaped; empty when there is none */
};

/* Reads a number: decimal, 0x hexadecimal, 0 octal, negative. Returns whether there was one. */
bool cursor_number(struct cursor *cursor, int64_t *out);

/* Reads a descriptor. Returns whether there was one. */
bool cursor_described(struct cursor *cursor, struct described *out);

/* Goes to the next argument: over nested braces, quotes and paths. */
void cursor_skip(struct cursor *cursor);

/* Goes to the value of the first `name` (which ends with '=') in the rest of the arguments.
 * Returns whether there is one. */
bool cursor_find(struct cursor *cursor, const char *name);

/* Reads a quoted text and undoes its escapes, without a terminator. Returns its length, -1 when
 * there is none (NULL, an address), -2 when it has more than `capacity` bytes. */
int64_t cursor_text(struct cursor *cursor, char *out, size_t capacity);

/* Undoes the escapes of a path of -y. Returns its length or -2 as above. */
int64_t view_unescape(struct view view, char *out, size_t capacity);

/* Returns where the text that begins at `from` (an argument list) ends: at its closing bracket,
 * or NULL. */
const char *closing_bracket(const char *from, const char *end);

#endif
