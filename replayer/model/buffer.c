#include "model/buffer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CLOSED UINT64_MAX
#define CLEAN UINT32_MAX

/* A row of the LRU stack, which is open in as many buffers as its place there or more. What was
 * written to it is not yet in the memory with `dirty_from` buffers or more. */
struct stacked_row {
  uint64_t row;
  uint32_t dirty_from; /* or CLEAN */
};

struct bank {
  uint64_t row;
  bool is_dirty;
};

struct buffer {
  uint32_t row_shift, line_shift;
  uint32_t count;
  uint32_t depth;            /* the largest number of buffers */
  uint32_t *buffers;         /* `count` numbers */
  struct stacked_row *stack; /* `depth` rows, the newest first */
  struct bank *banks;        /* for each number of buffers its open rows, `depth` apart */
  uint64_t *hits;   /* BUFFER_KINDS rows of `depth`: accesses by the stack distance from 0 */
  uint64_t *opened; /* the same of rows, those beyond the stack last: `depth` + 1 */
  int64_t *written; /* `depth` + 2: by how much more rows are written back than with one less */
  uint64_t *bank_hits, *bank_opened; /* BUFFER_KINDS rows of `count` */
  uint64_t *bank_written;            /* `count` */
  uint64_t accesses[BUFFER_KINDS], bytes[BUFFER_KINDS];
  uint64_t repeats[BUFFER_KINDS]; /* accesses to the row before, which change nothing */
};

static int check_setup(const struct buffer_setup *setup) {
  if (setup->row_shift > 30 || setup->line_shift > 30 || setup->count == 0)
    return -EINVAL;
  for (uint32_t i = 0; i < setup->count; i++)
    if (setup->buffers[i] <= (i ? setup->buffers[i - 1] : 0) || setup->buffers[i] > BUFFER_MOST)
      return -EINVAL;
  return 0;
}

static int make_tables(struct buffer *buffer, const uint32_t *buffers) {
  const size_t count = buffer->count, depth = buffer->depth;
  buffer->buffers = calloc(count, sizeof *buffer->buffers);
  buffer->stack = calloc(depth, sizeof *buffer->stack);
  buffer->banks = calloc(count * depth, sizeof *buffer->banks);
  buffer->hits = calloc(BUFFER_KINDS * depth, sizeof *buffer->hits);
  buffer->opened = calloc(BUFFER_KINDS * (depth + 1), sizeof *buffer->opened);
  buffer->written = calloc(depth + 2, sizeof *buffer->written);
  buffer->bank_hits = calloc(BUFFER_KINDS * count, sizeof *buffer->bank_hits);
  buffer->bank_opened = calloc(BUFFER_KINDS * count, sizeof *buffer->bank_opened);
  buffer->bank_written = calloc(count, sizeof *buffer->bank_written);
  if (!buffer->buffers || !buffer->stack || !buffer->banks || !buffer->hits || !buffer->opened ||
      !buffer->written || !buffer->bank_hits || !buffer->bank_opened || !buffer->bank_written)
    return -ENOMEM;
  memcpy(buffer->buffers, buffers, count * sizeof *buffers);
  for (size_t i = 0; i < depth; i++)
    buffer->stack[i] = (struct stacked_row){CLOSED, CLEAN};
  for (size_t i = 0; i < count * depth; i++)
    buffer->banks[i] = (struct bank){CLOSED, false};
  return 0;
}

int tk_buffer_new(const struct buffer_setup *setup, struct buffer **out) {
  if (check_setup(setup))
    return -EINVAL;
  struct buffer *buffer = calloc(1, sizeof *buffer);
  if (buffer == NULL)
    return -ENOMEM;

  buffer->row_shift = setup->row_shift;
  buffer->line_shift = setup->line_shift;
  buffer->count = setup->count;
  buffer->depth = setup->buffers[setup->count - 1];
  const int error = make_tables(buffer, setup->buffers);
  if (error) {
    tk_buffer_free(buffer);
    return error;
  }
  *out = buffer;
  return 0;
}

/* Counts that a row at this place of the stack was written back where fewer buffers closed it. */
static void count_written(int64_t *written, struct stacked_row row, uint32_t place) {
  if (row.dirty_from > place)
    return;
  written[row.dirty_from]++;
  written[place + 1]--;
}

/* Makes a row the newest of the stack; returns the distance at which it was, `depth` if nowhere. */
static uint32_t touch(struct buffer *buffer, uint64_t number, bool is_write) {
  struct stacked_row *stack = buffer->stack, row = {number, CLEAN};
  uint32_t at = 0;
  while (at < buffer->depth && stack[at].row != number)
    at++;
  const uint32_t distance = at;
  if (at < buffer->depth) {
    row = stack[at];
    count_written(buffer->written, row, at);
    /* Fewer buffers have just read the row again: there it is clean. */
    if (row.dirty_from <= at)
      row.dirty_from = at + 1;
  } else {
    at = buffer->depth - 1;
    count_written(buffer->written, stack[at], buffer->depth);
  }
  memmove(stack + 1, stack, at * sizeof *stack);
  if (is_write)
    row.dirty_from = 1;
  stack[0] = row;
  return distance;
}

/* Opens the row in the banks of the `at`-th number of buffers; returns whether it was open. */
static bool open_bank(struct buffer *buffer, uint32_t at, uint64_t row, bool is_write) {
  struct bank *bank = &buffer->banks[(size_t)at * buffer->depth + row % buffer->buffers[at]];
  const bool is_open = bank->row == row;
  buffer->bank_written[at] += !is_open && bank->is_dirty;
  *bank = (struct bank){row, is_write || (is_open && bank->is_dirty)};
  return is_open;
}

/* Counts an access to the rows from `first` to `last`, of one line. */
static void add_access(struct buffer *buffer, uint64_t first, uint64_t last, bool is_write) {
  uint64_t *opened = buffer->opened + (size_t)is_write * (buffer->depth + 1);
  uint32_t farthest = 0;
  const struct stacked_row newest = buffer->stack[0];
  buffer->accesses[is_write]++;
  if (first == last && newest.row == first && (!is_write || newest.dirty_from == 1)) {
    buffer->repeats[is_write]++;
    return;
  }
  for (uint64_t row = first; row <= last; row++) {
    const uint32_t distance = touch(buffer, row, is_write);
    opened[distance]++;
    farthest = distance > farthest ? distance : farthest;
  }
  if (farthest < buffer->depth)
    buffer->hits[(size_t)is_write * buffer->depth + farthest]++;
  for (uint32_t at = 0; at < buffer->count; at++) {
    const size_t place = (size_t)is_write * buffer->count + at;
    uint64_t closed = 0;
    for (uint64_t row = first; row <= last; row++)
      closed += !open_bank(buffer, at, row, is_write);
    buffer->bank_opened[place] += closed;
    buffer->bank_hits[place] += closed == 0;
  }
}

int tk_buffer_add(struct buffer *buffer, const struct memory_access *rows, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    const bool is_write = rows[i].is_write != 0;
    const uint64_t bytes = rows[i].bytes ? rows[i].bytes : 1;
    uint64_t begin = rows[i].address;
    const uint64_t last = begin + (bytes - 1) < begin ? UINT64_MAX : begin + (bytes - 1);
    const uint64_t lines = (last >> buffer->line_shift) - (begin >> buffer->line_shift) + 1;
    buffer->bytes[is_write] += bytes;
    for (uint64_t line = 0; line < lines; line++) {
      const uint64_t line_last = begin | ((UINT64_C(1) << buffer->line_shift) - 1);
      const uint64_t end = line_last < last ? line_last : last;
      add_access(buffer, begin >> buffer->row_shift, end >> buffer->row_shift, is_write);
      begin = end + 1;
    }
  }
  return 0;
}

/* Returns how many rows of the stack `buffers` buffers have written back since they were touched.
 */
static uint64_t closed_dirty(const struct buffer *buffer, uint32_t buffers) {
  uint64_t count = 0;
  for (uint32_t at = buffers; at < buffer->depth; at++)
    count += buffer->stack[at].dirty_from <= buffers;
  return count;
}

static void read_lru(const struct buffer *buffer, uint32_t at, bool is_write,
                     struct buffer_counts *counts) {
  const uint32_t buffers = buffer->buffers[at];
  const uint64_t *opened = buffer->opened + (size_t)is_write * (buffer->depth + 1);
  counts->hits = buffer->repeats[is_write];
  for (uint32_t distance = 0; distance < buffers; distance++)
    counts->hits += buffer->hits[(size_t)is_write * buffer->depth + distance];
  for (uint32_t distance = buffers; distance <= buffer->depth; distance++)
    counts->row_reads += opened[distance];
  if (!is_write)
    return;
  int64_t written = 0;
  for (uint32_t number = 1; number <= buffers; number++)
    written += buffer->written[number];
  counts->row_writes = (uint64_t)written + closed_dirty(buffer, buffers);
}

void tk_buffer_read(const struct buffer *buffer, struct buffer_counts *counts) {
  for (uint32_t at = 0; at < buffer->count; at++)
    for (uint32_t kind = 0; kind < BUFFER_KINDS; kind++) {
      const struct buffer_counts whole = {.accesses = buffer->accesses[kind],
                                          .bytes = buffer->bytes[kind]};
      struct buffer_counts *lru = &counts[at * BUFFER_KINDS + kind];
      struct buffer_counts *banked = &counts[(buffer->count + at) * BUFFER_KINDS + kind];
      const size_t place = (size_t)kind * buffer->count + at;
      *lru = *banked = whole;
      read_lru(buffer, at, kind == 1, lru);
      banked->hits = buffer->repeats[kind] + buffer->bank_hits[place];
      banked->row_reads = buffer->bank_opened[place];
      banked->row_writes = kind == 1 ? buffer->bank_written[at] : 0;
    }
}

void tk_buffer_free(struct buffer *buffer) {
  if (buffer == NULL)
    return;
  free(buffer->buffers);
  free(buffer->stack);
  free(buffer->banks);
  free(buffer->hits);
  free(buffer->opened);
  free(buffer->written);
  free(buffer->bank_hits);
  free(buffer->bank_opened);
  free(buffer->bank_written);
  free(buffer);
}
