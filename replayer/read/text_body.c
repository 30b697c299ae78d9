#include "read/text_body.h"

#include <endian.h>
#include <string.h>

#include "read/text.h"
#include "read/text_scan.h"

#define MOST_SECTORS (UINT32_MAX >> SECTOR_SHIFT)
#define MOST_CPU 65535u
#define END_SECTOR (1ULL << 54) /* 8 EiB */

static void set_action(struct record *record, enum trace_action action) {
  record->action = (uint16_t)action;
}

/* Letters of one character, by their character. */
static const uint8_t actions[128] = {
    ['Q'] = ACTION_QUEUE,  ['M'] = ACTION_BACK_MERGE,  ['F'] = ACTION_FRONT_MERGE,
    ['S'] = ACTION_SLEEP,  ['G'] = ACTION_GET_REQUEST, ['R'] = ACTION_REQUEUE,
    ['D'] = ACTION_ISSUE,  ['C'] = ACTION_COMPLETE,    ['P'] = ACTION_PLUG,
    ['U'] = ACTION_UNPLUG, ['I'] = ACTION_INSERT,      ['X'] = ACTION_SPLIT,
    ['B'] = ACTION_BOUNCE, ['A'] = ACTION_REMAP,
};

static bool two_letters(const char *letters, struct record *record) {
  if (letters[0] == 'U' && letters[1] == 'T')
    set_action(record, ACTION_UNPLUG_TIMER);
  else if (letters[0] == 'Z' && letters[1] == 'P')
    set_action(record, ACTION_ZONE_PLUG);
  else if (letters[0] == 'Z' && letters[1] == 'U')
    set_action(record, ACTION_ZONE_UNPLUG);
  else
    return false;
  return true;
}

bool text_action(const char **at, struct record *record) {
  const char *letters = *at = skip_blanks(*at);
  unsigned char letter = (unsigned char)letters[0];
  if (letter == '\n' || letter >= sizeof(actions))
    return false;

  /* One letter, or "m" of a message; two letters are the timer and the zone plugs. */
  if (letters[1] < 'A' || letters[1] > 'Z') {
    *at += 1;
    if (letter == 'm') {
      record->category |= CATEGORY_NOTIFY;
      set_action(record, (enum trace_action)NOTIFY_MESSAGE);
      return true;
    }
    set_action(record, actions[letter]);
    return record->action != 0;
  }
  *at += 2;
  return two_letters(letters, record);
}

/* The zone operations: append, reset, reset all, finish, open, close; "RA" before "R". */
static uint64_t zone_operation(const char **at) {
  static const char *const names[] = {"A", "RA", "R", "F", "O", "C"};
  static const unsigned bits[] = {0, 2, 1, 3, 4, 5};
  for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    if (begins_with(*at, names[i])) {
      *at += strlen(names[i]);
      return CATEGORY_WRITE | 1ULL << (32 + bits[i]);
    }
  }
  return 0;
}

/* The operation's letter; a second F is the operation of the device's own flush. */
static bool scan_operation(const char **at, uint64_t *category) {
  char letter = *(*at)++;
  switch (letter) {
  case 'R':
  case 'N':
    *category |= CATEGORY_READ;
    return true;
  case 'W':
    *category |= CATEGORY_WRITE;
    return true;
  case 'D':
    *category |= CATEGORY_WRITE | CATEGORY_DISCARD;
    *at += **at == 'E';
    return true;
  case 'F':
    *category |= CATEGORY_READ | CATEGORY_FLUSH;
    return true;
  case 'Z': {
    uint64_t zone = zone_operation(at);
    *category |= zone;
    return zone != 0;
  }
  default:
    return false;
  }
}

static void scan_flags(const char **at, uint64_t *category) {
  /* Letters in any order, up to the first that is no flag. */
  for (;; (*at)++)
    switch (**at) {
    case 'F':
      *category |= CATEGORY_FUA;
      break;
    case 'B': /* a barrier, of kernels before 2.6.37: all before it is durable, and then it is */
      *category |= CATEGORY_FLUSH | CATEGORY_FUA;
      break;
    case 'A':
      *category |= CATEGORY_AHEAD;
      break;
    case 'S':
      *category |= CATEGORY_SYNC;
      break;
    case 'M':
      *category |= CATEGORY_META;
      break;
    case 'a': /* atomic, of which the binary records know nothing */
    case 'U':
      break;
    default:
      return;
    }
}

static bool is_operation(char letter) {
  return letter == 'W' || letter == 'R' || letter == 'D' || letter == 'N' || letter == 'F' ||
         letter == 'Z';
}

bool text_rwbs(const char **at, struct record *record) {
  uint64_t category = 0;
  *at = skip_blanks(*at);
  /* A flush before the data, or the operation itself when no other follows. */
  if (**at == 'F' && is_operation((*at)[1])) {
    category |= CATEGORY_FLUSH;
    ++*at;
  }
  bool is_good = scan_operation(at, &category);
  if (is_good)
    scan_flags(at, &category);
  record->category |= category;
  return is_good;
}

static bool skip_command(const char **at, const char *end) {
  const char *close = memchr(*at, ')', (size_t)(end - *at));
  if (!close)
    return false;
  *at = skip_blanks(close + 1);
  return true;
}

/* "<- (maj,min) sector", and a number of I/Os that some kernels add. */
static bool scan_from(const char **at, struct text_body *out) {
  uint64_t ios;
  if (!scan_letter(at, '<') || !scan_letter(at, '-'))
    return false;
  *at = skip_blanks(*at);
  if (!scan_letter(at, '(') || !scan_device(at, &out->from) || !scan_letter(at, ')'))
    return false;
  *at = skip_blanks(*at);
  out->has_from = scan_number(at, &out->other);
  *at = skip_blanks(*at);
  return out->has_from && (!is_digit(**at) || scan_number(at, &ios));
}

/* "[text]" to the last bracket of the line, and an unplug's count. */
static bool scan_word(const char **at, const char *end, struct text_body *out) {
  const char *close = end;
  uint64_t count;
  while (close > *at && *close != ']')
    close--;
  if (close == *at || !scan_letter(at, '['))
    return false;
  out->word = *at;
  out->word_bytes = (uint32_t)(close - *at);
  *at = skip_blanks(close + 1);
  return !is_digit(**at) || scan_number(at, &count);
}

/* The place: "sector", "sector + sectors" or "sector / new sector". */
static bool scan_place(const char **at, struct text_body *out) {
  static const char none[] = "18446744073709551615"; /* of a flush without a place */
  const char *begin = *at;
  if (!scan_number(at, &out->sector)) {
    if (!begins_with(begin, none))
      return false;
    *at = begin + sizeof(none) - 1;
    out->sector = 0;
  }
  out->has_sector = true;
  *at = skip_blanks(*at);
  if (scan_letter(at, '+')) {
    *at = skip_blanks(*at);
    out->has_sectors = scan_u32(at, MOST_SECTORS, &out->sectors);
    if (!out->has_sectors)
      return false;
  } else if (scan_letter(at, '/')) {
    *at = skip_blanks(*at);
    out->has_other = scan_number(at, &out->other);
    if (!out->has_other)
      return false;
  }
  *at = skip_blanks(*at);
  return true;
}

/* What may stand before the place: the bytes of a request and its command. */
static bool scan_command(const char **at, const char *end, struct text_body *out) {
  const char *begin = *at;
  if (is_digit(**at)) {
    uint64_t bytes = 0;
    bool is_number = scan_number(at, &bytes);
    *at = skip_blanks(*at);
    if (!is_number || **at != '(') {
      *at = begin;
      return true;
    }
    out->bytes = bytes;
    out->has_bytes = true;
  }
  if (**at != '(')
    return true;
  out->has_command = true;
  return skip_command(at, end);
}

static bool skip_priority(const char **at) {
  const char *begin = *at;
  bool has_comma = false;
  for (; !is_blank(**at) && **at != '\n'; ++*at)
    has_comma |= **at == ',';
  bool is_good = has_comma && *at > begin;
  *at = skip_blanks(*at);
  return is_good;
}

bool text_body(const char *at, const char *end, struct text_body *out) {
  *out = (struct text_body){0};
  at = skip_blanks(at);
  if (!scan_command(&at, end, out))
    return false;
  if (is_digit(*at) && !scan_place(&at, out))
    return false;
  if (*at == '(' && !skip_command(&at, end))
    return false;
  if (*at == '<' && !scan_from(&at, out))
    return false;
  if (*at != '\n' && *at != '[' && !skip_priority(&at))
    return false;
  if (*at == '[' && !scan_word(&at, end, out))
    return false;
  return skip_blanks(at) == end;
}

/* The error of a completion: a number between the brackets. */
static bool fill_error(const struct text_body *body, struct record *record) {
  const char *at = body->word;
  uint32_t error = 0;
  if (!at)
    return false;
  bool is_negative = scan_letter(&at, '-');
  if (!scan_u32(&at, UINT16_MAX, &error) || at != body->word + body->word_bytes)
    return false;
  record->error = (uint16_t)(is_negative ? 0u - error : error);
  return true;
}

void text_name(const struct text_body *body, struct record *record) {
  static const char *const unknown[] = {"(null)", "<...>"};
  uint32_t length = body->word_bytes < PAYLOAD_BYTES ? body->word_bytes : PAYLOAD_BYTES;
  for (unsigned i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
    if (length == strlen(unknown[i]) && memcmp(body->word, unknown[i], length) == 0)
      return;
  memcpy(record->payload, body->word, length);
  record->payload_size = (uint16_t)length;
  record->has_name = length > 0;
}

static void fill_remap(const struct text_body *body, struct record *record) {
  uint32_t devices[2] = {htobe32(body->from), htobe32(record->device)};
  uint64_t sector = htobe64(body->other);
  memcpy(record->payload, devices, sizeof(devices));
  memcpy(record->payload + sizeof(devices), &sector, sizeof(sector));
  record->payload_size = PAYLOAD_BYTES;
}

static void fill_split(const struct text_body *body, struct record *record) {
  uint64_t sector = htobe64(body->other);
  memcpy(record->payload, &sector, sizeof(sector));
  record->payload_size = sizeof(sector);
}

bool text_place(const struct text_body *body, struct record *record) {
  if (body->sector > END_SECTOR || body->sector + body->sectors > END_SECTOR)
    return false;
  record->sector = body->sector;
  record->bytes = body->sectors << SECTOR_SHIFT;
  /* A last sector that is used in part; a command's bytes, where sectors are missing. */
  bool is_exact = body->bytes && body->bytes <= UINT32_MAX &&
                  (body->bytes + 511) >> SECTOR_SHIFT == body->sectors;
  if (is_exact)
    record->bytes = (uint32_t)body->bytes;
  return true;
}

bool text_fill(const struct text_body *body, struct record *record) {
  if (!text_place(body, record))
    return false;

  /* What else an action needs: an error, the other place, or the name of the process. */
  switch (record->action) {
  case ACTION_COMPLETE:
  case ACTION_REQUEUE:
    return fill_error(body, record);
  case ACTION_REMAP:
    fill_remap(body, record);
    return body->has_from && body->has_sectors;
  case ACTION_SPLIT:
    fill_split(body, record);
    return body->has_other;
  default:
    if (!body->word)
      return false;
    text_name(body, record);
    return true;
  }
}

/* Says whether the body is of a command that is no block I/O: it has bytes but no place. */
static bool is_command(const struct text_body *body, const struct record *record) {
  switch (record->action) {
  case ACTION_QUEUE:
  case ACTION_INSERT:
  case ACTION_ISSUE:
  case ACTION_BOUNCE:
    return body->has_command || (body->has_sector && !body->has_sectors);
  case ACTION_COMPLETE:
  case ACTION_REQUEUE:
    return !body->has_sector && !body->has_bytes;
  default:
    return false;
  }
}

enum text_status text_columns(const char *at, const char *end, struct record *out) {
  struct text_body body;
  if (!text_action(&at, out) || !is_blank(*at))
    return TEXT_BAD;
  if (out->category & CATEGORY_NOTIFY)
    return TEXT_EVENT;
  if (!text_rwbs(&at, out) || !is_blank(*at) || !text_body(at, end, &body))
    return TEXT_BAD;
  if (is_command(&body, out)) {
    out->category |= CATEGORY_PASSTHROUGH;
    return body.word ? TEXT_EVENT : TEXT_BAD;
  }
  /* "sector (elapsed time) [error]" of blkparse -t and a completion without bytes. */
  if (body.has_bytes) {
    body.sector = body.bytes;
    body.bytes = 0;
  }
  return text_fill(&body, out) ? TEXT_EVENT : TEXT_BAD;
}

static bool read_head(const char **at, bool has_sequence, struct record *out) {
  if (!scan_device(at, &out->device))
    return false;
  *at = skip_blanks(*at);
  if (!scan_u32(at, MOST_CPU, &out->cpu))
    return false;
  *at = skip_blanks(*at);
  if (has_sequence && !scan_u32(at, UINT32_MAX, &out->sequence))
    return false;
  if (!scan_time(at, &out->time_ns))
    return false;
  *at = skip_blanks(*at);
  return scan_u32(at, INT32_MAX, &out->pid);
}

enum text_status text_blkparse(struct text *text, const char *line, const char *end,
                               struct record *out) {
  (void)text;
  return read_head(&line, true, out) ? text_columns(line, end, out) : TEXT_BAD;
}

enum text_status text_tracer(struct text *text, const char *line, const char *end,
                             struct record *out) {
  (void)text;
  return read_head(&line, false, out) ? text_columns(line, end, out) : TEXT_BAD;
}
