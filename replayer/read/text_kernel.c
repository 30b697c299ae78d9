/* Lines of perf script and of the kernel's own text. Both have the head
 *
 *   comm pid [cpu] flags seconds.fraction:        (perf: without flags)
 *   comm-pid (group) [cpu] flags seconds.fraction:
 *   comm pid [cpu] seconds.fraction: period       (perf script -F, some or all of it)
 *
 * and then an event's name and its fields, or the columns of the blk tracer. A name of a process
 * may hold blanks and brackets, so the head is read backwards from "[cpu]". */
#include <endian.h>
#include <string.h>

#include "read/text.h"
#include "read/text_body.h"
#include "read/text_driver.h"
#include "read/text_scan.h"

#define MOST_CPU 65535u

/* Other block_* events do not concern a request's way: they are passed over. */
struct known_event {
  const char *name; /* behind "block_" */
  uint8_t length;   /* of the name */
  uint8_t action;
  bool is_of_request; /* not of a bio: it may be a command */
};

#define NAME(text) (text), sizeof(text) - 1

static const struct known_event events[] = {
    {NAME("bio_queue"), ACTION_QUEUE, false},
    {NAME("rq_issue"), ACTION_ISSUE, true},
    {NAME("rq_complete"), ACTION_COMPLETE, true},
    {NAME("getrq"), ACTION_GET_REQUEST, false},
    {NAME("bio_remap"), ACTION_REMAP, false},
    {NAME("rq_remap"), ACTION_REMAP, true},
    {NAME("rq_insert"), ACTION_INSERT, true},
    {NAME("bio_backmerge"), ACTION_BACK_MERGE, false},
    {NAME("bio_frontmerge"), ACTION_FRONT_MERGE, false},
    {NAME("rq_merge"), ACTION_BACK_MERGE, true},
    {NAME("bio_complete"), ACTION_COMPLETE, false},
    {NAME("rq_requeue"), ACTION_REQUEUE, true},
    {NAME("split"), ACTION_SPLIT, false},
    {NAME("bio_bounce"), ACTION_BOUNCE, false},
    {NAME("sleeprq"), ACTION_SLEEP, false},
};

static const struct known_event *find_event(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
    if (events[i].length == length && memcmp(events[i].name, name, length) == 0)
      return &events[i];
  return NULL;
}

/* Reads the number that ends before `at`; returns where it begins, or NULL. */
static const char *pid_before(const char *line, const char *at, uint32_t *out) {
  while (at > line && is_blank(at[-1]))
    at--;
  if (at > line && at[-1] == ')') { /* the thread group, "(  123)" or "(-----)" */
    while (at > line && at[-1] != '(')
      at--;
    if (at > line)
      at--;
    while (at > line && is_blank(at[-1]))
      at--;
  }
  const char *end = at;
  while (at > line && is_digit(at[-1]))
    at--;
  const char *begin = at;
  return scan_u32(&at, INT32_MAX, out) && at == end ? begin : NULL;
}

/* Finds " [cpu] " and reads it, the pid before it, and where the name ends before that. */
static bool read_task(const char **at, const char *end, const char **name_end, struct record *out) {
  const char *line = *at;
  for (const char *p = line; (p = memchr(p, '[', (size_t)(end - p))) != NULL; p++) {
    const char *cpu = p + 1;
    if (p == line || !is_blank(p[-1]) || !scan_u32(&cpu, MOST_CPU, &out->cpu) ||
        !scan_letter(&cpu, ']') || !is_blank(*cpu) || !(*name_end = pid_before(line, p, &out->pid)))
      continue;
    *at = skip_blanks(cpu);
    return true;
  }
  return false;
}

/* The last letter before `at` that is no blank stands before what is returned. */
static const char *blanks_before(const char *line, const char *at) {
  while (at > line && is_blank(at[-1]))
    at--;
  return at;
}

static const char *digits_before(const char *line, const char *at) {
  while (at > line && (is_digit(at[-1]) || at[-1] == '.'))
    at--;
  return at;
}

/* Reads a head of perf script -F backwards from the event's name: a time, before which a period may
 * be missing, a cpu and a pid. */
static bool read_short_head(const char **at, const char *end, struct record *out) {
  static const char name[] = "block:block_";
  const char *line = *at;
  const char *found = memmem(line, (size_t)(end - line), name, sizeof(name) - 1);
  if (!found)
    return false;
  const char *p = blanks_before(line, found);
  if (p > line && is_digit(p[-1]))
    p = blanks_before(line, digits_before(line, p)); /* the period */
  if (p == line || p[-1] != ':')
    return false;
  const char *time = digits_before(line, p - 1);
  *at = time;
  if (!scan_time(at, &out->time_ns) || *at != p - 1)
    return false;
  *at = found;
  const char *before = blanks_before(line, time);
  if (before > line && before[-1] == ']') {
    const char *cpu = digits_before(line, before - 1);
    before = cpu > line ? cpu - 1 : line;
    if (!scan_u32(&cpu, MOST_CPU, &out->cpu))
      return false;
  }
  if (!pid_before(line, before, &out->pid))
    out->pid = 0;
  return true;
}

/* Reads the time, before which flags may stand. */
static bool read_time(const char **at, struct record *out) {
  const char *begin = *at;
  if (scan_time(at, &out->time_ns) && scan_letter(at, ':'))
    return true;
  *at = begin;
  while (!is_blank(**at) && **at != '\n')
    ++*at;
  return scan_time(at, &out->time_ns) && scan_letter(at, ':');
}

/* "N", neither read nor write: with a place it is a write of zeroes, which the binary records call
 * a write; a request without one is a command to the device. */
static void take_neither(const struct known_event *event, const struct text_body *body,
                         struct record *out) {
  if (body->sectors > 0)
    out->category ^= CATEGORY_READ | CATEGORY_WRITE;
  else if (event->is_of_request)
    out->category |= CATEGORY_PASSTHROUGH;
}

static enum text_status read_event(const struct known_event *event, const char *at, const char *end,
                                   struct record *out) {
  struct text_body body;
  out->action = event->action;
  if (!scan_device(&at, &out->device))
    return TEXT_BAD;
  bool is_neither = *(at = skip_blanks(at)) == 'N';
  if (!text_rwbs(&at, out) || !is_blank(*at) || !text_body(at, end, &body))
    return TEXT_BAD;
  if (is_neither)
    take_neither(event, &body, out);
  return body.has_sector && text_fill(&body, out) ? TEXT_EVENT : TEXT_BAD;
}

/* "block:block_name: " or "block_name: "; leaves other events alone. */
static enum text_status read_block(struct text *text, const char *at, const char *end,
                                   struct record *out) {
  static const char prefix[] = "block_";
  const char *name = at + sizeof(prefix) - 1;
  const char *colon = memchr(name, ':', (size_t)(end - name));
  const struct known_event *event = colon ? find_event(name, (size_t)(colon - name)) : NULL;
  if (!event)
    return colon ? TEXT_PASSED : TEXT_BAD;
  if (text->format == TEXT_KERNEL)
    return read_event(event, colon + 1, end, out);
  text->others[LAYER_BLOCK]++;
  return TEXT_PASSED;
}

/* An event of a driver; the name of the process stands in the head, [line, name_end). */
static enum text_status read_driver(struct text *text, const char *at, const char *end,
                                    const struct text_body *head, struct record *out) {
  const char *colon = memchr(at, ':', (size_t)(end - at));
  if (!colon)
    return TEXT_PASSED;
  enum text_layer layer = driver_layer(at, (size_t)(colon - at));
  if (layer != text_layer(text->format)) {
    text->others[layer]++;
    return TEXT_PASSED;
  }
  enum text_status status = driver_event(text, at, skip_blanks(colon + 1), end, out);
  if (status == TEXT_EVENT && out->action == ACTION_ISSUE)
    text_name(head, out);
  return status;
}

/* perf prints "system:name: ", the kernel "name: ". */
static enum text_status read_name(struct text *text, const char *at, const char *end,
                                  const struct text_body *head, struct record *out) {
  const char *name = at;
  while ((*name >= 'a' && *name <= 'z') || *name == '_' || is_digit(*name))
    name++;
  bool is_perf = *name == ':' && !is_blank(name[1]);
  if (is_perf)
    at = name + 1;
  enum text_status status = begins_with(at, "block_") ? read_block(text, at, end, out)
                                                      : read_driver(text, at, end, head, out);
  if (status == TEXT_EVENT)
    text->is_perf = is_perf;
  return status;
}

/* The number behind the word, 0 when the line has it not. */
static uint64_t number_behind(const char *line, const char *end, const char *word) {
  const char *at = memmem(line, (size_t)(end - line), word, strlen(word));
  uint64_t number = 0;
  if (at) {
    at = skip_blanks(at + strlen(word));
    (void)scan_number(&at, &number);
  }
  return number;
}

/* How many CPUs there are: "... #P:8" of ftrace, "cpus=8" of trace-cmd, and of perf script's header
 * "# nrcpus online : 8". */
static void take_cpus(struct text *text, const char *line, const char *end) {
  static const char *const words[] = {"#P:", "cpus=", "# nrcpus online :"};
  for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]) && text->cpus == 0; i++)
    if (number_behind(line, end, words[i]) <= MOST_CPU)
      text->cpus = (int64_t)number_behind(line, end, words[i]);
}

/* Lines that report losses: a header's "entries-in-buffer/entries-written: 3/5", ftrace's "CPU:0
 * [LOST 2 EVENTS]", trace-cmd's "CPU:0 [2 EVENTS DROPPED]", perf's "PERF_RECORD_LOST lost 2". */
static bool reports_loss(struct text *text, const char *line, const char *end) {
  static const char written[] = "entries-in-buffer/entries-written:";
  static const char dropped[] = " EVENTS DROPPED]";
  const char *at = memmem(line, (size_t)(end - line), written, sizeof(written) - 1);
  uint64_t lost = number_behind(line, end, "[LOST ");
  uint64_t kept = 0, all = 0;
  if (memmem(line, (size_t)(end - line), dropped, sizeof(dropped) - 1))
    lost = number_behind(line, end, "[");
  if (!lost)
    lost = number_behind(line, end, "PERF_RECORD_LOST lost ");
  if (at) {
    at = skip_blanks(at + sizeof(written) - 1);
    if (scan_number(&at, &kept) && scan_letter(&at, '/') && scan_number(&at, &all) && all > kept)
      lost = all - kept;
  }
  if (lost > INT32_MAX)
    lost = INT32_MAX;
  take_cpus(text, line, end);
  text->lost += (int64_t)lost;
  return lost > 0;
}

/* Lines of a call chain below its event: "\t  ffffffff81000000 name (place)". */
static bool is_of_chain(const char *line) {
  if (*line != '\t')
    return false;
  line = skip_blanks(line);
  unsigned digits = 0;
  while (is_digit(line[digits]) || (line[digits] >= 'a' && line[digits] <= 'f'))
    digits++;
  return digits > 1 && is_blank(line[digits]);
}

/* Passes over the blanks that align the names of events, eight at a time. */
static const char *skip_padding(const char *at, const char *end) {
  uint64_t others = 0, eight;
  while (end - at >= (int64_t)sizeof(eight) && others == 0) {
    memcpy(&eight, at, sizeof(eight));
    others = le64toh(eight) ^ 0x2020202020202020u;
    at += others ? __builtin_ctzll(others) / 8 : 8;
  }
  return skip_blanks(at);
}

/* The usual head, and a period behind it; the process' name, which a dash or a blank ends. */
static bool read_head(const char **at, const char *end, struct text_body *head,
                      struct record *out) {
  const char *name_end = NULL;
  head->word = skip_blanks(*at);
  if (!read_task(at, end, &name_end, out) || !read_time(at, out))
    return false;
  while (name_end > head->word && (is_blank(name_end[-1]) || name_end[-1] == '-'))
    name_end--;
  head->word_bytes = name_end > head->word ? (uint32_t)(name_end - head->word) : 0;
  const char *name = *at = skip_padding(*at, end);
  while (is_digit(*name))
    name++;
  const char *behind = skip_blanks(name);
  if (behind > name && *behind >= 'a' && *behind <= 'z')
    *at = name;
  return true;
}

enum text_status text_kernel(struct text *text, const char *line, const char *end,
                             struct record *out) {
  const char *at = line;
  struct text_body head = {0};
  if (!read_head(&at, end, &head, out)) {
    if (reports_loss(text, line, end) || is_of_chain(line))
      return TEXT_PASSED;
    at = line;
    head.word_bytes = 0;
    if (!read_short_head(&at, end, out))
      return TEXT_BAD;
  }
  at = skip_blanks(at);
  if (*at == 'P' && reports_loss(text, at, end))
    return TEXT_PASSED;
  if (!is_digit(*at))
    return read_name(text, at, end, &head, out);
  if (!scan_device(&at, &out->device))
    return TEXT_BAD;
  enum text_status status = text_columns(at, end, out);
  text->has_tracer |= status == TEXT_EVENT;
  return status;
}
