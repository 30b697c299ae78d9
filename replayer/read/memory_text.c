#include "read/memory_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "read/text_scan.h"

#define LINE_BYTES 64   /* of an access to memory in ramulator's traces */
#define TICKS_A_NS 1000 /* gem5's tick is a picosecond */
#define LARGEST_SIZE (1u << 20)
#define HEX_DIGITS 16
#define OLD_PERF_PREFIX "016" /* its format of an address was "0x016%lx" for "0x%016lx" */

static const char LACKEY_LETTERS[] = "LSMI"; /* in the order of tk_memory_operation */

enum outcome { GOOD, WRONG, PASSED };

struct access {
  uint64_t address;
  int64_t instruction, time_ns;
  uint32_t size;
  enum tk_memory_operation operation;
};

struct tk_memory {
  enum tk_memory_format format;
  int64_t instructions;
};

static void add(struct tk_memory_block *block, struct access access) {
  const int64_t row = block->rows++;
  block->addresses[row] = access.address;
  block->instructions[row] = access.instruction;
  block->times_ns[row] = access.time_ns;
  block->sizes[row] = (int32_t)access.size;
  block->operations[row] = (uint8_t)access.operation;
}

static int hex_value(char letter) {
  if (is_digit(letter))
    return letter - '0';
  const char lower = (char)(letter | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* 1 to 16 hexadecimal digits. */
static bool scan_hex(const char **at, uint64_t *out) {
  const char *p = *at;
  uint64_t value = 0;
  for (int digit; p - *at <= HEX_DIGITS && (digit = hex_value(*p)) >= 0; p++)
    value = value << 4 | (uint64_t)digit;
  const bool is_good = p > *at && p - *at <= HEX_DIGITS;
  *at = p;
  *out = value;
  return is_good;
}

static bool skip_0x(const char **at) {
  if ((*at)[0] != '0' || ((*at)[1] | 0x20) != 'x')
    return false;
  *at += 2;
  return true;
}

/* A decimal address, or 0x and a hexadecimal one. */
static bool scan_address(const char **at, uint64_t *out) {
  return skip_0x(at) ? scan_hex(at, out) : scan_number(at, out);
}

/* A decimal that is at least 1. */
static bool scan_size(const char **at, uint32_t *out) {
  return scan_u32(at, LARGEST_SIZE, out) && *out > 0;
}

static bool is_ended(const char *at, const char *end) { return skip_blanks(at) >= end; }

static enum outcome read_lackey(struct tk_memory *reader, const char *at, const char *end,
                                struct tk_memory_block *block) {
  if (begins_with(at, "==") || begins_with(at, "--"))
    return PASSED; /* valgrind's own words */
  const bool is_fetch = *at == 'I';
  if (!is_fetch && *at++ != ' ')
    return WRONG;
  const char *letter = memchr(LACKEY_LETTERS, *at, sizeof LACKEY_LETTERS - 1);
  if (!letter || (*letter == 'I') != is_fetch || *++at != ' ')
    return WRONG;
  struct access access = {.time_ns = -1,
                          .operation = (enum tk_memory_operation)(letter - LACKEY_LETTERS)};
  at = skip_blanks(at);
  if (!scan_hex(&at, &access.address) || !scan_letter(&at, ',') || !scan_size(&at, &access.size) ||
      !is_ended(at, end))
    return WRONG;
  reader->instructions += is_fetch;
  access.instruction = reader->instructions > 0 ? reader->instructions - 1 : 0;
  add(block, access);
  return GOOD;
}

/* A word between blanks, or commas where they delimit. */
struct word {
  const char *begin, *end;
};

static bool next_word(const char **at, const char *end, char delimiter, struct word *out) {
  const char *p = *at;
  while (p < end && (is_blank(*p) || *p == delimiter))
    p++;
  out->begin = p;
  while (p < end && !is_blank(*p) && *p != delimiter)
    p++;
  out->end = *at = p;
  return out->end > out->begin;
}

static bool is_number(struct word word) {
  uint64_t unused;
  const char *at = word.begin;
  return scan_number(&at, &unused) && at == word.end;
}

static bool is_hex(struct word word, uint64_t *out) {
  const char *at = word.begin;
  return scan_hex(&at, out) && at == word.end;
}

/* Says whether the word is a time of perf, seconds with a point and a colon behind. */
static bool is_time(struct word word, int64_t *out_ns) {
  const char *at = word.begin;
  uint64_t time_ns;
  if (!is_digit(*at) || !scan_time(&at, &time_ns) || !scan_letter(&at, ':') || at != word.end)
    return false;
  *out_ns = (int64_t)time_ns;
  return true;
}

static bool holds(const char *at, const char *end, const char *text) {
  return memmem(at, (size_t)(end - at), text, strlen(text)) != NULL;
}

/* What perf decodes behind an address as |OP LOAD|, else what the name of the event says. */
static bool find_operation(struct word event, const char *rest, const char *end,
                           enum tk_memory_operation *out) {
  const char *decoded = memmem(rest, (size_t)(end - rest), "|OP ", 4);
  const char *at = decoded ? decoded + 4 : event.begin;
  const char *stop = decoded ? memchr(at, '|', (size_t)(end - at)) : event.end;
  const bool is_named = decoded && stop && !begins_with(at, "N/A");
  if (decoded && !is_named) {
    at = event.begin;
    stop = event.end;
  }
  if (holds(at, stop, "STORE") || (!is_named && holds(at, stop, "store")))
    *out = is_named && holds(at, stop, "LOAD") ? MEMORY_MODIFY : MEMORY_STORE;
  else if (holds(at, stop, "LOAD") || holds(at, stop, is_named ? "PFETCH" : "load"))
    *out = MEMORY_LOAD;
  else if (is_named && holds(at, stop, "EXEC"))
    *out = MEMORY_FETCH;
  else
    return false;
  return true;
}

/* Says whether a line is of a sample's call chain: "    7ffe10 symbol+0x10 (file)". */
static bool is_frame(const char *at, const char *end) {
  struct word word;
  uint64_t ip;
  return is_blank(*at) && end[-1] == ')' && next_word(&at, end, ' ', &word) && is_hex(word, &ip);
}

static enum outcome read_perf_script(struct tk_memory *reader, const char *at, const char *end,
                                     struct tk_memory_block *block) {
  (void)reader; /* perf counts no instructions */
  const char *line = at;
  struct access access = {.instruction = -1, .time_ns = -1};
  struct word word, event;
  if (*skip_blanks(at) == '#')
    return PASSED;
  do {
    if (!next_word(&at, end, ' ', &word))
      return is_frame(line, end) ? PASSED : WRONG;
  } while (!is_time(word, &access.time_ns));
  do {
    if (!next_word(&at, end, ' ', &event))
      return WRONG;
  } while (event.end[-1] != ':');
  if (!next_word(&at, end, ' ', &word) || !is_hex(word, &access.address) ||
      !find_operation(event, at, end, &access.operation))
    return WRONG;
  if (access.address == 0)
    return PASSED; /* the processor had none for this sample */
  add(block, access);
  return GOOD;
}

/* The address of perf mem report -D, also with what old versions print before it. */
static bool perf_address(struct word word, uint64_t *out) {
  if (!skip_0x(&word.begin))
    return false;
  if (word.end - word.begin != HEX_DIGITS && begins_with(word.begin, OLD_PERF_PREFIX))
    word.begin += sizeof OLD_PERF_PREFIX - 1;
  return is_hex(word, out);
}

static enum outcome read_perf_report(struct tk_memory *reader, const char *at, const char *end,
                                     struct tk_memory_block *block) {
  (void)reader;
  struct access access = {.instruction = -1, .time_ns = -1};
  struct word words[4], word = {0};
  uint64_t source;
  if (*skip_blanks(at) == '#')
    return PASSED;
  for (size_t i = 0; i < 4; i++)
    if (!next_word(&at, end, ',', &words[i]))
      return WRONG;
  if (!is_number(words[0]) || !is_number(words[1]) || !perf_address(words[3], &access.address))
    return WRONG;
  /* A physical address and a size of page may stand before the weight. */
  for (size_t i = 0; i < 3 && (i == 0 || !is_number(word)); i++)
    if (!next_word(&at, end, ',', &word))
      return WRONG;
  if (!is_number(word) || !next_word(&at, end, ',', &word) || !skip_0x(&word.begin) ||
      !is_hex(word, &source))
    return WRONG;
  /* The first five bits are PERF_MEM_OP_: not available, load, store, prefetch, execute. */
  if (access.address == 0 || (source & 0x1e) == 0)
    return PASSED;
  access.operation = source & 0x4    ? source & 0x2 ? MEMORY_MODIFY : MEMORY_STORE
                     : source & 0x10 ? MEMORY_FETCH
                                     : MEMORY_LOAD;
  add(block, access);
  return GOOD;
}

static enum outcome read_gem5_packet(struct tk_memory *reader, const char *at, const char *end,
                                     struct tk_memory_block *block) {
  (void)reader; /* gem5 numbers packets, not instructions */
  struct word words[7];
  size_t count = 0, first = 0;
  while (count < 7 && next_word(&at, end, ',', &words[count]))
    count++;
  first = count > 0 && is_number(words[0]); /* a packet's number may stand first */
  if (count < first + 4 || count > first + 6 || !is_ended(at, end) ||
      words[first].end - words[first].begin != 1)
    return WRONG;
  const char letter = *words[first].begin;
  if (letter != 'r' && letter != 'w' && letter != 'u')
    return WRONG;
  for (size_t i = first + 1; i < count; i++)
    if (!is_number(words[i]))
      return WRONG;
  if (letter == 'u')
    return PASSED; /* another command: the script names ReadReq and WriteReq only */
  struct access access = {.instruction = -1,
                          .operation = letter == 'w' ? MEMORY_STORE : MEMORY_LOAD};
  uint64_t tick;
  const char *address = words[first + 1].begin, *size = words[first + 2].begin;
  /* Of four words or more the third is flags, behind the time may stand the program counter. */
  const char *time = words[first + (count - first > 4 ? 4 : 3)].begin;
  if (!scan_number(&address, &access.address) || !scan_size(&size, &access.size) ||
      !scan_number(&time, &tick))
    return WRONG;
  access.time_ns = (int64_t)(tick / TICKS_A_NS);
  add(block, access);
  return GOOD;
}

static enum outcome read_gem5_debug(struct tk_memory *reader, const char *at, const char *end,
                                    struct tk_memory_block *block) {
  (void)reader;
  struct access access = {.instruction = -1};
  uint64_t tick;
  at = skip_blanks(at);
  if (!scan_number(&at, &tick) || !scan_letter(&at, ':'))
    return WRONG;
  const char *what = memmem(at, (size_t)(end - at), ": ", 2);
  const char *size = memmem(at, (size_t)(end - at), " of size ", 9);
  /* Of another flag, the bytes that were moved, or gem5's own, as of a program that it loads. */
  if (!what || !size || holds(what, size, " from functional"))
    return PASSED;
  if (begins_with(what + 2, "Write "))
    access.operation = MEMORY_STORE;
  else if (begins_with(what + 2, "Read/Write "))
    access.operation = MEMORY_MODIFY;
  else if (begins_with(what + 2, "IFetch "))
    access.operation = MEMORY_FETCH;
  else if (!begins_with(what + 2, "Read "))
    return PASSED;
  at = size + 9;
  if (!scan_size(&at, &access.size) || !begins_with(at, " on address "))
    return WRONG;
  at += 12;
  if (!scan_address(&at, &access.address) || (at < end && !is_blank(*at)))
    return WRONG;
  access.time_ns = (int64_t)(tick / TICKS_A_NS);
  add(block, access);
  return GOOD;
}

static enum outcome read_ramulator(struct tk_memory *reader, const char *at, const char *end,
                                   struct tk_memory_block *block) {
  (void)reader; /* the trace of a memory has no processor */
  struct access access = {
      .instruction = -1, .time_ns = -1, .size = LINE_BYTES, .operation = MEMORY_LOAD};
  at = skip_blanks(at);
  if (begins_with(at, "LD ") || begins_with(at, "ST ")) {
    access.operation = *at == 'S' ? MEMORY_STORE : MEMORY_LOAD;
    at = skip_blanks(at + 3);
    if (!scan_address(&at, &access.address) || !is_ended(at, end))
      return WRONG;
  } else {
    if (!scan_address(&at, &access.address) || !is_blank(*at))
      return WRONG;
    at = skip_blanks(at);
    access.operation = *at == 'W' ? MEMORY_STORE : MEMORY_LOAD;
    if ((*at != 'R' && *at != 'W') || !is_ended(at + 1, end))
      return WRONG;
  }
  add(block, access);
  return GOOD;
}

static enum outcome read_ramulator_cpu(struct tk_memory *reader, const char *at, const char *end,
                                       struct tk_memory_block *block) {
  struct access access = {.time_ns = -1, .size = LINE_BYTES, .operation = MEMORY_LOAD};
  struct access back = {.time_ns = -1, .size = LINE_BYTES, .operation = MEMORY_STORE};
  uint64_t before;
  at = skip_blanks(at);
  if (!scan_number(&at, &before) || before > INT32_MAX || !is_blank(*at))
    return WRONG;
  at = skip_blanks(at);
  if (!scan_address(&at, &access.address))
    return WRONG;
  const bool has_back = !is_ended(at, end);
  if (has_back) {
    const bool is_apart = is_blank(*at);
    at = skip_blanks(at);
    if (!is_apart || !scan_address(&at, &back.address) || !is_ended(at, end))
      return WRONG;
  }
  reader->instructions += (int64_t)before + 1;
  access.instruction = back.instruction = reader->instructions - 1;
  add(block, access);
  if (has_back)
    add(block, back);
  return GOOD;
}

static enum outcome (*const READ[])(struct tk_memory *, const char *, const char *,
                                    struct tk_memory_block *) = {
    [MEMORY_LACKEY] = read_lackey,
    [MEMORY_PERF_SCRIPT] = read_perf_script,
    [MEMORY_PERF_REPORT] = read_perf_report,
    [MEMORY_GEM5_PACKETS] = read_gem5_packet,
    [MEMORY_GEM5_DEBUG] = read_gem5_debug,
    [MEMORY_RAMULATOR] = read_ramulator,
    [MEMORY_RAMULATOR_CPU] = read_ramulator_cpu,
};

int tk_memory_open(int32_t format, struct tk_memory **out) {
  if (format < 0 || format >= MEMORY_FORMAT_END)
    return -EINVAL;
  struct tk_memory *reader = calloc(1, sizeof(*reader));
  if (!reader)
    return -ENOMEM;
  reader->format = (enum tk_memory_format)format;
  *out = reader;
  return 0;
}

int tk_memory_read(struct tk_memory *reader, struct tk_memory_block *block) {
  block->wrong_count = block->passed = block->lines = block->rows = block->used = 0;

  /* The block ends early when an array is full, or at a line without an end. */
  while (block->used < block->size && block->rows + TK_MEMORY_ROWS_A_LINE <= block->capacity &&
         block->wrong_count < block->wrong_capacity) {
    const char *line = block->text + block->used;
    const char *ending = memchr(line, '\n', (size_t)(block->size - block->used));
    if (!ending)
      break;
    if (!is_ended(line, ending)) {
      const enum outcome outcome = READ[reader->format](reader, line, ending, block);
      block->passed += outcome == PASSED;
      if (outcome == WRONG) {
        block->wrong[block->wrong_count] = block->used;
        block->wrong_lines[block->wrong_count++] = block->lines;
      }
    }
    block->lines++;
    block->used = ending + 1 - block->text;
  }
  return 0;
}

int64_t tk_memory_instructions(const struct tk_memory *reader) {
  const bool has = reader->format == MEMORY_LACKEY || reader->format == MEMORY_RAMULATOR_CPU;
  return has ? reader->instructions : -1;
}

void tk_memory_close(struct tk_memory *reader) { free(reader); }
