#include "strace/record_text.h"

#include <stdlib.h>
#include <string.h>

#include "capture/file_calls.h"

#define NS 1000000000
#define MOST_NS ((uint64_t)1 << 60) /* since the machine began: 36 years */
#define RESTARTS_FROM                                                                              \
  (-516) /* results of calls that begin anew behind a signal: ERESTARTSYS...                       \
          */
#define RESTARTS_TO (-512)
#define LAST_ERROR (-4095)
#define CLONE_RANGE 0x4020940d /* FICLONERANGE */
#define CLONE_FILE 0x40049409  /* FICLONE */

#define NAME_AND_ARGUMENTS(name, arguments) {#name, arguments},

static const struct {
  const char *name, *arguments;
} calls[] = {FILE_CALLS(NAME_AND_ARGUMENTS)};

/* A line that is being written, and what it is made of. */
struct text {
  char *at;
  const struct file_record *record;
};

static void add_bytes(struct text *text, const char *bytes, size_t length) {
  memcpy(text->at, bytes, length);
  text->at += length;
}

static void add_word(struct text *text, const char *word) { add_bytes(text, word, strlen(word)); }

/* Writes digits, `width` of them at least. */
static void add_unsigned(struct text *text, uint64_t value, unsigned base, int width) {
  char digits[24];
  int count = 0;
  for (; value || count < width; value /= base)
    digits[count++] = (char)('0' + value % base);
  while (count)
    *text->at++ = digits[--count];
}

static void add_number(struct text *text, int64_t value) {
  if (value < 0)
    *text->at++ = '-';
  add_unsigned(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10, 1);
}

static void add_seconds(struct text *text, uint64_t time_ns) {
  add_unsigned(text, time_ns / NS, 10, 1);
  *text->at++ = '.';
  add_unsigned(text, time_ns % NS, 10, 9);
}

static bool is_plain(unsigned char byte) {
  return byte > ' ' && byte < 0x7f && !strchr("\"\\<>", byte);
}

/* Writes bytes as strace does: what would end the text, and what is not printable, as octal. */
static void add_escaped(struct text *text, const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)bytes[i];
    if (is_plain(byte)) {
      *text->at++ = bytes[i];
    } else {
      *text->at++ = '\\';
      add_unsigned(text, byte, 8, 3);
    }
  }
}

static struct view text_of(const struct file_record *record, int place) {
  const char *from = (const char *)(record + 1);
  for (int i = 0; i < place; i++)
    from += record->text_bytes[i];
  return (struct view){from, record->text_bytes[place]};
}

/* Writes a path of the kernel, whose parts stand from the last one on. */
static void add_parts(struct text *text, struct view parts) {
  const char *end = parts.text + parts.length;
  while (end > parts.text) {
    const char *last = end - 1; /* the NUL behind the part */
    const char *before =
        last > parts.text ? memrchr(parts.text, '\0', (size_t)(last - parts.text)) : NULL;
    const char *part = before ? before + 1 : parts.text;
    *text->at++ = '/';
    add_escaped(text, part, (size_t)(last - part));
    end = part;
  }
}

static void add_descriptor(struct text *text, int64_t number, int place) {
  struct view parts = text_of(text->record, 2 + place);
  add_number(text, (int32_t)number);
  if (text->record->behind[place] == FILE_NAMELESS)
    add_word(text, "<->");
  if (parts.length) {
    *text->at++ = '<';
    add_parts(text, parts);
    *text->at++ = '>';
  }
}

static void add_path(struct text *text, int argument, int place) {
  const struct file_record *record = text->record;
  struct view path = text_of(record, place);
  if (record->arguments[argument] == 0) {
    add_word(text, "NULL");
  } else if (record->unread >> argument & 1) {
    add_word(text, "0x1");
  } else {
    *text->at++ = '"';
    add_escaped(text, path.text, path.length);
    *text->at++ = '"';
  }
}

/* Of a change of the working directory: where it has led to. */
static void add_folder(struct text *text) {
  *text->at++ = '"';
  add_parts(text, text_of(text->record, 1));
  *text->at++ = '"';
}

static void add_stat(struct text *text, int argument) {
  const struct file_record *record = text->record;
  if (record->result < 0 || (record->unread >> argument & 1)) {
    add_word(text, "0x1");
    return;
  }
  add_word(text, "{st_mode=0");
  add_unsigned(text, record->arguments[argument], 8, 1);
  add_word(text, ", st_size=");
  add_number(text, (int64_t)record->arguments[FILE_OTHER_FACT]);
  *text->at++ = '}';
}

static void add_pointed_at(struct text *text, int argument, char letter) {
  const struct file_record *record = text->record;
  uint64_t value = record->arguments[argument];
  if (letter == 'o' && value == FILE_NO_PLACE) {
    add_word(text, "NULL");
  } else if (record->unread >> argument & 1) {
    add_word(text, "0x1");
  } else {
    add_word(text, letter == 'o' ? "[" : "{flags=");
    add_number(text, (int64_t)value);
    *text->at++ = letter == 'o' ? ']' : '}';
  }
}

/* The third argument of an ioctl: the source of a clone, whole or a part of it. */
static void add_request(struct text *text) {
  const struct file_record *record = text->record;
  const uint64_t *arguments = (const uint64_t *)record->arguments;
  if ((uint32_t)arguments[1] == CLONE_FILE) {
    add_descriptor(text, (int64_t)arguments[2], 1);
  } else if ((uint32_t)arguments[1] != CLONE_RANGE || record->unread) {
    add_word(text, "0x1");
  } else {
    add_word(text, "{src_fd=");
    add_descriptor(text, (int64_t)arguments[2], 1);
    add_word(text, ", src_offset=");
    add_number(text, (int64_t)arguments[3]);
    add_word(text, ", src_length=");
    add_number(text, (int64_t)arguments[4]);
    add_word(text, ", dest_offset=");
    add_number(text, (int64_t)arguments[5]);
    *text->at++ = '}';
  }
}

/* Places among the descriptors and paths of a call, as far as it is written. */
struct written {
  int descriptors, paths;
};

static void add_argument(struct text *text, char letter, int argument, struct written *written) {
  int64_t value = (int64_t)text->record->arguments[argument];
  bool is_third = text->record->call == FILE_CALL_ioctl && argument == 2;
  if (is_third)
    add_request(text);
  else if (letter == 'f' || letter == 'd')
    add_descriptor(text, value, written->descriptors++);
  else if (letter == 'p' && text->record->call == FILE_CALL_chdir && text->record->text_bytes[1])
    add_folder(text);
  else if (letter == 'p')
    add_path(text, argument, written->paths++);
  else if (letter == 's' || letter == 'x')
    add_stat(text, argument);
  else if (letter == 'o' || letter == 'h')
    add_pointed_at(text, argument, letter);
  else if (letter == '-')
    *text->at++ = '0';
  else
    add_number(text, letter == 'u' ? (uint32_t)value : letter == 'i' ? (int32_t)value : value);
}

/* Writes the arguments; returns whether the result is a descriptor. */
static bool add_arguments(struct text *text, const char *letters) {
  struct written written = {0, 0};
  for (int argument = 0; letters[argument] && argument < FILE_ARGUMENTS; argument++) {
    char letter = letters[argument];
    if (strchr("=!@?", letter))
      break;
    if (letter == '_')
      continue;
    if (argument)
      add_word(text, ", ");
    add_argument(text, letter, argument, &written);
  }
  return strchr(letters, '=') != NULL;
}

static void add_result(struct text *text, bool is_descriptor) {
  const struct file_record *record = text->record;
  struct view parts = text_of(record, 1);
  add_word(text, " = ");
  if (record->result >= RESTARTS_FROM && record->result <= RESTARTS_TO) {
    *text->at++ = '?';
  } else if (record->result < 0 && record->result >= LAST_ERROR) {
    add_word(text, "-1 E");
    add_number(text, -record->result);
  } else {
    add_number(text, record->result);
    if (is_descriptor && parts.length) {
      *text->at++ = '<';
      add_parts(text, parts);
      *text->at++ = '>';
    }
  }
  add_word(text, " <");
  add_seconds(text, record->end_ns - record->start_ns);
  *text->at++ = '>';
}

static void add_call(struct text *text) {
  const struct file_record *record = text->record;
  const char *name = calls[record->call].name;
  if (record->phase == FILE_ENDED) {
    add_word(text, "<... ");
    add_word(text, name);
    add_word(text, " resumed>)");
    add_result(text, false);
    return;
  }
  add_word(text, name);
  *text->at++ = '(';
  bool is_descriptor = add_arguments(text, calls[record->call].arguments);
  if (record->phase == FILE_BEGUN) {
    add_word(text, " <unfinished ...>");
    return;
  }
  *text->at++ = ')';
  add_result(text, is_descriptor);
}

static void add_event(struct text *text, bool supersedes) {
  const struct file_record *record = text->record;
  if (supersedes) {
    add_word(text, "+++ superseded by execve in pid ");
    add_number(text, (int64_t)record->arguments[0]);
    add_word(text, " +++");
  } else if (record->call == FILE_EXIT) {
    add_word(text, "+++ exited with 0 +++");
  } else if (record->call == FILE_FORK) {
    add_word(text, "clone(flags=");
    add_number(text, (int64_t)record->arguments[0]);
    *text->at++ = ')';
    add_result(text, false);
  } else {
    struct view path = text_of(record, 0);
    add_word(text, "execve(\"");
    add_escaped(text, path.text, path.length);
    add_word(text, "\")");
    add_result(text, false);
  }
}

bool record_is_whole(const struct file_record *record, size_t size) {
  size_t needed = sizeof(*record);
  for (int i = 0; i < FILE_TEXTS; i++) {
    if (record->text_bytes[i] > FILE_PATH_BYTES)
      return false;
    needed += record->text_bytes[i];
  }
  bool is_known =
      record->call < FILE_CALL_COUNT || (record->call >= FILE_FORK && record->call <= FILE_LOST);
  bool is_after = record->phase == FILE_BEGUN || record->end_ns >= record->start_ns;
  bool is_in_time = record->start_ns <= MOST_NS && record->end_ns <= MOST_NS;
  return needed <= size && is_known && (record->call == FILE_LOST || (is_after && is_in_time));
}

bool record_supersedes(const struct file_record *record) {
  return record->call == FILE_EXEC && record->arguments[0] != record->tid;
}

struct view record_text(const struct file_record *record, int64_t clock_to_wall_ns, bool supersedes,
                        char out[RECORD_TEXT_BYTES]) {
  struct text text = {.at = out, .record = record};
  bool is_end = record->phase == FILE_ENDED;
  uint64_t time_ns = is_end ? record->end_ns : record->start_ns;
  add_number(&text, record->tid);
  *text.at++ = ' ';
  add_seconds(&text, time_ns + (uint64_t)clock_to_wall_ns);
  *text.at++ = ' ';
  if (record->call < FILE_CALL_COUNT)
    add_call(&text);
  else
    add_event(&text, supersedes);
  return (struct view){out, (size_t)(text.at - out)};
}
