/* Lines of a format that the user gave to `blkparse -f`. */
#include <errno.h>
#include <string.h>

#include "read/text.h"
#include "read/text_body.h"
#include "read/text_scan.h"

#define MOST_CPU 65535u

/* Fields that blkparse knows; of a widened one ("%-5n", "%05d") only the letter counts. */
static const char letters[] = "acCdDegGmMnNpPsStTuUz";

/* What is read of a line so far. */
struct reading {
  struct record *record;
  const char *end;
  struct text_body body;
  uint32_t major, minor;
  uint64_t seconds, fraction_ns;
  bool has_device;
};

static bool is_width(char letter) { return is_digit(letter) || letter == '-'; }

static int add_item(struct text_form *form, struct form_item item) {
  bool is_repeated = item.is_blank && form->count > 0 && form->items[form->count - 1].is_blank;
  if (is_repeated)
    return 0;
  if (form->count == FORM_ITEMS)
    return -EINVAL;
  form->items[form->count++] = item;
  return 0;
}

/* Reads one item of the pattern at `*at`. "\\n" and "\\t" may stand as two characters, as in the
 * shell's quotes. */
static int read_item(struct text_form *form, const char **at) {
  char letter = *(*at)++;
  bool is_escape = letter == '\\' && (**at == 'n' || **at == 't');
  *at += is_escape;
  if (is_escape || is_blank(letter) || letter == '\n')
    return add_item(form, (struct form_item){.is_blank = true});
  if (letter != '%' || **at == '%') {
    *at += letter == '%';
    return add_item(form, (struct form_item){.literal = letter});
  }
  while (is_width(**at))
    ++*at;
  letter = *(*at)++;
  if (letter == '\0' || !strchr(letters, letter))
    return -EINVAL;
  return add_item(form, (struct form_item){.letter = letter});
}

static bool has_field(const struct text_form *form, const char *any) {
  for (uint32_t i = 0; i < form->count; i++)
    if (form->items[i].letter && strchr(any, form->items[i].letter))
      return true;
  return false;
}

int text_form_open(struct text_form *form, const char *pattern) {
  *form = (struct text_form){0};
  while (*pattern)
    if (read_item(form, &pattern))
      return -EINVAL;
  static const char *const needed[] = {"T", "a", "d", "S", "nN"};
  for (unsigned i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
    if (!has_field(form, needed[i]))
      return -ENODATA;
  return 0;
}

/* A word to the next item's character, to the next blank when that is next, or to the line's end.
 */
static bool scan_text(const char **at, const char *end, const struct form_item *next,
                      const char **word, uint32_t *length) {
  const char *begin = *at, *stop = end;
  if (next && next->is_blank)
    for (stop = begin; !is_blank(*stop) && *stop != '\n';)
      stop++;
  else if (next && next->literal)
    stop = memchr(begin, next->literal, (size_t)(end - begin));
  if (!stop)
    return false;
  *at = stop;
  while (stop > begin && is_blank(stop[-1]))
    stop--;
  *word = begin;
  *length = (uint32_t)(stop - begin);
  return true;
}

static bool scan_bytes(const char **at, struct text_body *body) {
  uint64_t bytes = 0;
  if (!scan_number(at, &bytes) || bytes > UINT32_MAX)
    return false;
  body->bytes = bytes;
  body->sectors = (uint32_t)((bytes + 511) >> SECTOR_SHIFT);
  return true;
}

static bool scan_error(const char **at, struct record *record) {
  uint32_t error;
  bool is_negative = scan_letter(at, '-');
  bool is_good = scan_u32(at, UINT16_MAX, &error);
  record->error = (uint16_t)(is_negative ? 0u - error : error);
  return is_good;
}

/* Fields that are passed over: cgroup, elapsed time, payload, wall clock. */
static bool skip_field(const char **at, const struct reading *reading,
                       const struct form_item *next) {
  const char *word;
  uint32_t length;
  return scan_text(at, reading->end, next, &word, &length);
}

static bool read_place(const char **at, char letter, struct reading *reading) {
  struct text_body *body = &reading->body;
  if (letter == 'S')
    return scan_number(at, &body->sector);
  if (letter == 'N')
    return scan_bytes(at, body);
  uint32_t sectors;
  if (!scan_u32(at, UINT32_MAX >> SECTOR_SHIFT, &sectors))
    return false;
  body->sectors = sectors;
  return true;
}

static bool read_device(const char **at, char letter, struct reading *reading) {
  if (letter == 'D')
    return scan_device(at, &reading->record->device);
  reading->has_device = true;
  return letter == 'M' ? scan_u32(at, 0xfff, &reading->major)
                       : scan_u32(at, (1u << MINOR_BITS) - 1, &reading->minor);
}

/* Nanoseconds of %t are printed as a number or, widened by zeros, as nine digits: the same. */
static bool read_nanoseconds(const char **at, struct reading *reading) {
  return scan_number(at, &reading->fraction_ns) && reading->fraction_ns < 1000000000u;
}

/* Reads the field that a letter of the format names; letters without a column are passed over. */
static bool read_field(const char **at, const struct form_item *item, const struct form_item *next,
                       struct reading *reading) {
  struct record *record = reading->record;
  *at = skip_blanks(*at);
  switch (item->letter) {
  case 'a':
    return text_action(at, record);
  case 'd':
    return text_rwbs(at, record);
  case 'c':
    return scan_u32(at, MOST_CPU, &record->cpu);
  case 'p':
    return scan_u32(at, INT32_MAX, &record->pid);
  case 's':
    return scan_u32(at, UINT32_MAX, &record->sequence);
  case 'e':
    return scan_error(at, record);
  case 'T':
    return scan_number(at, &reading->seconds) && reading->seconds < 4000000000u;
  case 't':
    return read_nanoseconds(at, reading);
  case 'S':
  case 'n':
  case 'N':
    return read_place(at, item->letter, reading);
  case 'D':
  case 'M':
  case 'm':
    return read_device(at, item->letter, reading);
  case 'C':
    return scan_text(at, reading->end, next, &reading->body.word, &reading->body.word_bytes);
  default:
    return skip_field(at, reading, next);
  }
}

static bool read_items(const struct text_form *form, const char *at, struct reading *reading) {
  for (uint32_t i = 0; i < form->count; i++) {
    const struct form_item *item = &form->items[i];
    const struct form_item *next = i + 1 < form->count ? item + 1 : NULL;
    if (item->letter) {
      if (!read_field(&at, item, next, reading))
        return false;
    } else if (item->is_blank) {
      at = skip_blanks(at);
    } else if (!scan_letter(&at, item->literal)) {
      return false;
    }
  }
  return skip_blanks(at) == reading->end;
}

bool text_form_line(const struct text_form *form, const char *line, const char *end,
                    struct record *out) {
  struct reading reading = {.record = out, .end = end};
  if (!read_items(form, line, &reading) || !text_place(&reading.body, out))
    return false;
  if (reading.has_device)
    out->device = reading.major << MINOR_BITS | reading.minor;
  out->time_ns = reading.seconds * 1000000000u + reading.fraction_ns;
  if (reading.body.word)
    text_name(&reading.body, out);
  /* Where a remap comes from and where a split ends is in no field. */
  out->has_no_payload = out->action == ACTION_REMAP || out->action == ACTION_SPLIT;
  return true;
}
