#include "strace/line.h"

#include <errno.h>
#include <string.h>

#define NS 1000000000

static const char unfinished[] = "<unfinished ...>";
static const char resumed[] = " resumed>";

static bool begins(const struct cursor *cursor, const char *text) {
  size_t length = strlen(text);
  return (size_t)(cursor->end - cursor->at) >= length && memcmp(cursor->at, text, length) == 0;
}

static void skip_spaces(struct cursor *cursor) {
  while (cursor->at < cursor->end && *cursor->at == ' ')
    cursor->at++;
}

/* Reads `seconds.fraction` as nanoseconds. */
static bool read_seconds(struct cursor *cursor, int64_t *out_ns) {
  int64_t seconds = 0;
  if (!cursor_number(cursor, &seconds) || seconds < 0 || seconds > INT64_MAX / NS - 1)
    return false;
  int64_t fraction = 0;
  int64_t unit = NS;
  if (cursor->at < cursor->end && *cursor->at == '.')
    for (cursor->at++; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9';
         cursor->at++)
      if (unit > 1) {
        unit /= 10;
        fraction += (*cursor->at - '0') * unit;
      }
  *out_ns = seconds * NS + fraction;
  return true;
}

static void split_note(struct cursor *cursor, struct line *out) {
  out->kind = LINE_OTHER;
  if (begins(cursor, "+++ exited") || begins(cursor, "+++ killed"))
    out->kind = LINE_ENDED;
  if (begins(cursor, "+++ superseded")) {
    int64_t other = 0;
    if (cursor_find(cursor, "in pid ") && cursor_number(cursor, &other) && other > 0 &&
        other <= UINT32_MAX) {
      out->kind = LINE_SUPERSEDED;
      out->other_tid = (uint32_t)other;
    }
  }
}

static void split_call(struct cursor *cursor, struct line *out) {
  const char *from = cursor->at;
  const char *at = from;
  while (at < cursor->end &&
         ((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || *at == '_'))
    at++;
  if (at == from || at == cursor->end || *at != '(')
    return;
  out->name = (struct view){from, (size_t)(at - from)};
  out->body = (struct view){at + 1, (size_t)(cursor->end - at - 1)};
  out->kind = LINE_CALL;
  size_t length = sizeof(unfinished) - 1;
  if (out->body.length >= length && memcmp(cursor->end - length, unfinished, length) == 0) {
    out->kind = LINE_UNFINISHED;
    out->body.length -= length;
  }
}

static void split_resumed(struct cursor *cursor, struct line *out) {
  const char *from = cursor->at + strlen("<... ");
  cursor->at = from;
  if (!cursor_find(cursor, resumed))
    return;
  out->name = (struct view){from, (size_t)(cursor->at - from) - (sizeof(resumed) - 1)};
  out->body = (struct view){cursor->at, (size_t)(cursor->end - cursor->at)};
  out->kind = LINE_RESUMED;
}

void line_split(struct view text, struct line *out) {
  struct cursor cursor = {text.text, text.text + text.length};
  int64_t tid = 0;
  memset(out, 0, sizeof(*out));
  if (!cursor_number(&cursor, &tid) || tid <= 0 || tid > INT32_MAX)
    return;
  out->tid = (uint32_t)tid;
  skip_spaces(&cursor);
  if (!read_seconds(&cursor, &out->time_ns))
    return;

  /* A note of strace, the second part of a call, or a call. */
  skip_spaces(&cursor);
  if (begins(&cursor, "+++ ") || begins(&cursor, "--- "))
    split_note(&cursor, out);
  else if (begins(&cursor, "<... "))
    split_resumed(&cursor, out);
  else
    split_call(&cursor, out);
}

/* The error numbers behind the names that strace prints, in the order of these. */
static const struct {
  const char *name;
  int32_t number;
} errors[] = {
    {"E2BIG", E2BIG},
    {"EACCES", EACCES},
    {"EAGAIN", EAGAIN},
    {"EBADF", EBADF},
    {"EBUSY", EBUSY},
    {"ECANCELED", ECANCELED},
    {"EDEADLK", EDEADLK},
    {"EDQUOT", EDQUOT},
    {"EEXIST", EEXIST},
    {"EFAULT", EFAULT},
    {"EFBIG", EFBIG},
    {"EINTR", EINTR},
    {"EINVAL", EINVAL},
    {"EIO", EIO},
    {"EISDIR", EISDIR},
    {"ELOOP", ELOOP},
    {"EMFILE", EMFILE},
    {"EMLINK", EMLINK},
    {"ENAMETOOLONG", ENAMETOOLONG},
    {"ENFILE", ENFILE},
    {"ENODATA", ENODATA},
    {"ENODEV", ENODEV},
    {"ENOENT", ENOENT},
    {"ENOEXEC", ENOEXEC},
    {"ENOLCK", ENOLCK},
    {"ENOMEM", ENOMEM},
    {"ENOSPC", ENOSPC},
    {"ENOSYS", ENOSYS},
    {"ENOTBLK", ENOTBLK},
    {"ENOTCONN", ENOTCONN},
    {"ENOTDIR", ENOTDIR},
    {"ENOTEMPTY", ENOTEMPTY},
    {"ENOTSOCK", ENOTSOCK},
    {"ENOTTY", ENOTTY},
    {"ENXIO", ENXIO},
    {"EOPNOTSUPP", EOPNOTSUPP},
    {"EOVERFLOW", EOVERFLOW},
    {"EPERM", EPERM},
    {"EPIPE", EPIPE},
    {"ERANGE", ERANGE},
    {"EROFS", EROFS},
    {"ESPIPE", ESPIPE},
    {"ESRCH", ESRCH},
    {"ESTALE", ESTALE},
    {"ETIMEDOUT", ETIMEDOUT},
    {"ETXTBSY", ETXTBSY},
    {"EUSERS", EUSERS},
    {"EXDEV", EXDEV},
};

/* Returns the errno of a name such as ENOENT, or of E and a number as a recording has it, or EIO
 * for one that no file system call gives. */
static int32_t error_number(struct view name) {
  struct cursor number = {name.text + 1, name.text + name.length};
  int64_t value = 0;
  if (name.length > 1 && cursor_number(&number, &value) && number.at == number.end)
    return value > 0 && value < INT32_MAX ? (int32_t)value : EIO;
  for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
    if (strlen(errors[i].name) == name.length &&
        memcmp(errors[i].name, name.text, name.length) == 0)
      return errors[i].number;
  return EIO;
}

/* Reads ` ENOENT (No such file or directory)` behind a result of -1. */
static int32_t read_error(struct cursor *cursor) {
  skip_spaces(cursor);
  const char *from = cursor->at;
  while (cursor->at < cursor->end &&
         ((*cursor->at >= 'A' && *cursor->at <= 'Z') || (*cursor->at >= '0' && *cursor->at <= '9')))
    cursor->at++;
  return error_number((struct view){from, (size_t)(cursor->at - from)});
}

bool call_read(struct view body, struct call *out) {
  const char *end = body.text + body.length;
  const char *close = closing_bracket(body.text, end);
  *out = (struct call){.duration_ns = -1};
  if (!close)
    return false;
  out->arguments = (struct cursor){body.text, close};

  /* The result stands behind the arguments: "= value<path> ERROR (text) <duration>". */
  struct cursor rest = {close + 1, end};
  skip_spaces(&rest);
  if (!begins(&rest, "= "))
    return false;
  rest.at += 2;
  if (begins(&rest, "?"))
    return true;
  struct described result = {0};
  if (!cursor_described(&rest, &result))
    return false;
  out->has_result = true;
  out->value = result.fd;
  out->path = result.path;
  if (result.fd == -1 && begins(&rest, " E"))
    out->error = read_error(&rest);
  /* The duration ends the line; what explains an error in brackets may hold anything. */
  const char *last = memrchr(rest.at, '<', (size_t)(end - rest.at));
  struct cursor duration = {last ? last + 1 : end, end};
  if (last && !read_seconds(&duration, &out->duration_ns))
    out->duration_ns = -1;
  return true;
}
