#include "read/text.h"

#include <string.h>

#include "read/text_driver.h"
#include "read/text_scan.h"

#define ENOUGH_LINES 200 /* events that a format is known by */

/* "Skips: 1,234 forward (5,678 -  12.3%)": the second number is that of the records. */
static void take_skips(struct text *text, const char *line) {
  const char *at = strchr(line, '(');
  for (at = at ? at + 1 : line; is_digit(*at) || *at == ','; at++)
    if (*at != ',' && text->skips < INT32_MAX)
      text->skips = text->skips * 10 + (*at - '0');
  text->has_skips = true;
}

/* Over a table of `blkparse -s`: "fio (123)", or of several processes "fio (123, ...)". */
static bool is_process(const char *line) {
  const char *at = line, *bracket = line;
  for (; *at != '\n'; at++)
    if (*at == '(')
      bracket = at;
  return bracket > line && is_digit(bracket[1]) && at[-1] == ')' && !is_blank(*line);
}

/* What blkparse writes behind its events, and what shells and scripts write around them. */
static bool begins_summary(const char *line) {
  static const char *const begins[] = {"CPU",      "Total (",     "Throughput (",
                                       "Events (", "Input file ", "Skips:"};
  for (unsigned i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
    if (begins_with(line, begins[i]))
      return true;
  return is_process(line);
}

/* Behind its begin a summary is anything but an event of the kernel's text, which has a processor
 * in brackets, as in "kworker/0:1H-123 [000]"; names of processes may have colons and brackets,
 * too. */
static bool may_be_of_summary(const char *line) {
  for (; *line != '\n'; line++) {
    if (line[0] != ' ' || line[1] != '[' || !is_digit(line[2]))
      continue;
    for (line += 3; is_digit(*line); line++)
      ;
    if (*line == ']')
      return false;
    line--;
  }
  return true;
}

static void keep_example(struct text *text, const char *line, size_t length) {
  if (text->bad > TEXT_EXAMPLES)
    return;
  struct text_example *example = &text->examples[text->bad - 1];
  if (length > TEXT_SHOWN_BYTES)
    length = TEXT_SHOWN_BYTES;
  example->line = text->lines;
  memcpy(example->text, line, length);
  example->text[length] = '\0';
}

static enum text_status read_line(struct text *text, const char *line, const char *end,
                                  struct record *out) {
  switch (text->format) {
  case TEXT_BLKPARSE:
    return text_blkparse(text, line, end, out);
  case TEXT_FORM:
    return text_form_line(&text->form, line, end, out) ? TEXT_EVENT : TEXT_BAD;
  case TEXT_TRACER:
    return text_tracer(text, line, end, out);
  case TEXT_KERNEL:
  case TEXT_NVME:
  case TEXT_UFS:
  case TEXT_SCSI:
    return text_kernel(text, line, end, out);
  case TEXT_NONE:
    break;
  }
  return TEXT_BAD;
}

/* A wrong line that may be passed over: before the first event, empty, a comment, a summary. */
static bool may_pass(struct text *text, const char *line) {
  const char *begin = skip_blanks(line);
  bool is_of_blkparse = text->format == TEXT_BLKPARSE || text->format == TEXT_FORM;
  if (is_of_blkparse && begins_summary(line))
    text->in_summary = true;
  if (is_of_blkparse && begins_with(line, "Skips:"))
    take_skips(text, line);
  bool is_of_summary = text->in_summary && may_be_of_summary(line);
  return !text->is_started || is_of_summary || *begin == '\n' || *begin == '#';
}

enum text_status text_line(struct text *text, const char *line, const char *end,
                           struct record *out) {
  text->lines++;
  *out = (struct record){0};
  enum text_status status = read_line(text, line, end, out);
  if (status == TEXT_EVENT) {
    text->is_started = true;
    text->has_nanoseconds = text->has_nanoseconds || out->time_ns % 1000 != 0;
    text->in_summary = false;
    return status;
  }
  if (status == TEXT_BAD && may_pass(text, line))
    status = TEXT_PASSED;
  if (status == TEXT_PASSED) {
    text->passed++;
    return status;
  }
  text->bad++;
  keep_example(text, line, (size_t)(end - line));
  return status;
}

void text_too_long(struct text *text, const char *line, size_t bytes) {
  text->lines++;
  text->bad++;
  keep_example(text, line, bytes);
}

void text_close(struct text *text) {
  drivers_close(text->drivers);
  *text = (struct text){0};
}

/* Says whether nearly all events of the head are good ones under a format. */
static bool is_format(enum text_format format, const char *head, size_t size) {
  struct text text = {.format = format};
  struct record record;
  const char *line = head, *last = head + size;
  int64_t events = 0;
  while (line < last && events < ENOUGH_LINES) {
    const char *end = memchr(line, '\n', (size_t)(last - line));
    if (!end)
      break;
    events += text_line(&text, line, end, &record) == TEXT_EVENT;
    line = end + 1;
  }
  bool is_it = events > 0 && text.bad * 9 <= events;
  text_close(&text);
  return is_it;
}

enum text_format text_detect(const char *head, size_t size) {
  static const enum text_format formats[] = {TEXT_BLKPARSE, TEXT_TRACER, TEXT_KERNEL,
                                             TEXT_NVME,     TEXT_UFS,    TEXT_SCSI};
  for (unsigned i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
    if (is_format(formats[i], head, size))
      return formats[i];
  return TEXT_NONE;
}
